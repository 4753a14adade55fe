// All of the extension's relations, for health. Nothing else knows them all: each is its own file's matter.
#pragma once

#include "pg.hpp"

namespace idem {

// Checks every relation, as its first use would. Raises for the first that is not as it was installed.
void check_members();

} // namespace idem
