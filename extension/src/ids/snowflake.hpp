// The numbers of idem_next_id: unique and strictly increasing in this database.
#pragma once

#include "storage/member.hpp"

namespace idem {

extern Member id_high_water;

// The next number; it contains idem.node_id. Never rolls back, and makes no other caller wait for this transaction's end.
// REQUIRES: a transaction that may write.
int64 next_id();

} // namespace idem
