// A lock wait that gives up quietly.
#pragma once

#include "core/key_state.hpp"
#include "pg.hpp"

namespace idem {

// Runs `wait`, each of whose lock waits may last `patience` microseconds at most; false when that was used up, and whatever
// `wait` did is undone. Any other error passes, and so does the caller's own lock_timeout, 55P03, where it is the shorter one.
// The server reports a time-out as an error, so this takes a subtransaction. REQUIRES: patience > 0.
template <typename Wait> bool within_patience(core::Micros patience, Wait wait) {
    const core::Micros milliseconds = Min((patience + 999) / 1000, INT_MAX);
    if (LockTimeout > 0 && LockTimeout <= milliseconds) {
        wait();
        return true;
    }
    const MemoryContext context = CurrentMemoryContext;
    const ResourceOwner owner = CurrentResourceOwner;
    const int own_timeout = LockTimeout;
    ErrorData *volatile error = nullptr;
    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(context);
    LockTimeout = static_cast<int>(milliseconds);
    PG_TRY();
    {
        wait();
        ReleaseCurrentSubTransaction();
    }
    PG_CATCH();
    {
        MemoryContextSwitchTo(context);
        error = CopyErrorData();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
    }
    PG_END_TRY();
    LockTimeout = own_timeout;
    MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    if (error != nullptr && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
        ReThrowError(error);
    return error == nullptr;
}

} // namespace idem
