// Calls whose effect ends with their transaction protect nothing when the transaction is that one statement, as under a
// driver's autocommit. Such a call is undone at the commit.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Raises 25P01 at the commit of this transaction, unless there may be work under the effect of the call: the call is in a
// transaction block, or within another function; or its statement is more than a SELECT, or not the only one; or WAL is written
// after it. `function` and `hint` are constants. REQUIRES: called last, after the writes of the call.
void expect_work_after(FunctionCallInfo fcinfo, const char *function,
                       const char *hint = "Send BEGIN before it. Is autocommit on?");

// Registers the commit callback. REQUIRES: called once per backend.
void transaction_block_initialize();

} // namespace idem
