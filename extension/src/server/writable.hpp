// What a function that writes calls before it does anything else.
#pragma once

#include "server/pg.hpp"

namespace idem {

// 25006 in a read-only transaction or on a standby, 25000 in a parallel operation. `function`: for the message.
inline void prevent_unless_writable(const char *function) {
    PreventCommandIfReadOnly(function);
    PreventCommandIfParallelMode(function);
}

} // namespace idem
