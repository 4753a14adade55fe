// The list of the extension's relations and types, for idem_health. All other code knows only the relations of its own file.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Checks every relation and type, as its first use does. Raises 55000 for the first that is not as installed.
void check_members();

} // namespace idem
