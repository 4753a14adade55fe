// This shared library: what it was built from.
#pragma once

namespace idem {

// The version. The SQL in a database may have another one (core/version.hpp).
const char *library_version();

// The commit, as `git describe` names it; empty where the build did not know.
const char *library_source();

} // namespace idem
