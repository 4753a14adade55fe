// What is installed in the database.
#pragma once

#include <string>

#include <idem/target.hpp>

namespace idem {

struct version_info {
    std::string edition; ///< "c": the extension in C++; "portable": the one without a library
    std::string version; ///< of what is installed in this database, not of the library
    std::string server;  ///< of PostgreSQL, as it spells it
};

/// One round trip; retried after a lost connection. Every role may call it.
version_info version(const target &at);

} // namespace idem
