// Subtransactions of our own: what runs in one can be undone, or fail, without the caller's transaction.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Runs `work`, which returns whether what it did is to be kept. An error in it is returned, and everything undone; nullptr:
// there was none. Whatever happens, no level of the transaction is left behind: the server's own handlers end exactly one.
template <typename Work> ErrorData *try_in_subtransaction(Work work) {
    const MemoryContext context = CurrentMemoryContext;
    const ResourceOwner owner = CurrentResourceOwner;
    ErrorData *volatile error = nullptr;
    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(context);
    PG_TRY();
    {
        if (work())
            ReleaseCurrentSubTransaction();
        else
            RollbackAndReleaseCurrentSubTransaction();
    }
    PG_CATCH();
    {
        MemoryContextSwitchTo(context);
        error = CopyErrorData();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
    }
    PG_END_TRY();
    MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    return error;
}

// The same, and raises the error.
template <typename Work> void in_subtransaction(Work work) {
    if (ErrorData *error = try_in_subtransaction(work))
        ReThrowError(error);
}

} // namespace idem
