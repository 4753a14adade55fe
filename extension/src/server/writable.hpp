// The check that a function makes before it writes.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Raises 25006 in a read-only transaction or on a standby, 25000 in a parallel operation. Messages name `function`.
inline void prevent_unless_writable(const char *function) {
    PreventCommandIfReadOnly(function);
    PreventCommandIfParallelMode(function);
}

} // namespace idem
