// What is installed in the database.
#pragma once

#include <string>

#include <idem/target.hpp>

namespace idem {

struct version_info {
    std::string edition; ///< "c": the extension in C++
    std::string version; ///< of the extension in this database, as ALTER EXTENSION … UPDATE left it
    std::string server;  ///< of PostgreSQL, as it spells it
};

/// One round trip; retried after a lost connection. Every role may call it.
version_info version(const target &at);

} // namespace idem
