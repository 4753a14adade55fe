// Which row an error is about.
#pragma once

#include "server/pg.hpp"

namespace idem {

// " The row has the key (id)=(7).", for a DETAIL: the columns of the table's main key that the current user may SELECT, with
// their values. Empty when there is none to show, under row-level security, and in the actions of foreign keys, which run as
// another user. Runs no code of any user's.
const char *row_name(Relation table, HeapTuple row);

} // namespace idem
