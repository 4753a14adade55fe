// Internal subtransactions. Work in one can be rolled back, or fail, without ending the caller's transaction.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Runs `work` in a subtransaction, which commits if `work` returns true and otherwise rolls back. If `work` raises an error,
// the subtransaction rolls back and the error is returned, else nullptr. The nesting level is always that of before:
// the server's own handlers end exactly one level.
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

// As try_in_subtransaction, but raises the error after the rollback.
template <typename Work> void in_subtransaction(Work work) {
    if (ErrorData *error = try_in_subtransaction(work))
        ReThrowError(error);
}

} // namespace idem
