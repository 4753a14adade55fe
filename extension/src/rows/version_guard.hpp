// The trigger that makes every UPDATE of a row increase its version by one.
#pragma once

#include "rows/target.hpp"

namespace idem {

// The version column that the table's guard names. nullptr when there is no guard: optimistic_enable creates it.
const char *guarded_version_column(Relation table);

// The same, but 55000 when there is no guard.
const char *required_version_column(Relation table);

} // namespace idem
