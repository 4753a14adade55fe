// The trigger that keeps a row's version honest, whoever updates the row.
#pragma once

#include "rows/target.hpp"

namespace idem {

// The version column of a table that optimistic_enable was called for, as its guard names it; nullptr when there is no guard.
const char *guarded_version_column(Relation table);

// The same; 55000 when there is no guard.
const char *required_version_column(Relation table);

} // namespace idem
