#include "server/library.hpp"

namespace idem {

const char *library_version() { return IDEM_VERSION; }
const char *library_source() { return IDEM_SOURCE_ID; }

} // namespace idem
