// Whether a library and the SQL in a database belong together, by their versions.
#pragma once

#include <string_view>

namespace idem::core {

// A library serves the SQL of all versions with its own major version: within one, C functions keep their names and arguments,
// and tables their columns. Versions are `1.2.3`; one that does not begin with a number is served by no library.
bool is_served(std::string_view sql_version, std::string_view library_version);

} // namespace idem::core
