// Commits that wait for a synchronous standby on behalf of WAL that another transaction wrote.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Makes this transaction's commit wait until the synchronous standbys have the WAL up to `written`, if they may lack it and if
// synchronous_commit asks for that. A transaction without an id would not wait, so it is given one.
void await_standby_at_commit(XLogRecPtr written);

} // namespace idem
