// All of the extension's relations and types, for health. Nothing else knows them all: each relation is its own file's matter.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Checks every relation and type, as its first use would. Raises 55000 for the first that is not as it was installed.
void check_members();

} // namespace idem
