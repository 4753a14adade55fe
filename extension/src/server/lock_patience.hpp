// A lock wait that gives up quietly.
#pragma once

#include "core/key_state.hpp"
#include "server/own_settings.hpp"
#include "server/subtransaction.hpp"

namespace idem {

// Runs `attempt`; false when a lock was not to be had at once (55P03, as of NOWAIT), and whatever it did is undone. The server
// reports that as an error, so this takes a subtransaction. Any other error passes.
template <typename Attempt> bool without_waiting(Attempt attempt) {
    ErrorData *error = try_in_subtransaction([&] {
        attempt();
        return true;
    });
    if (error != nullptr && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
        ReThrowError(error);
    return error == nullptr;
}

// The same, but each lock wait may last `patience` microseconds. The caller's own lock_timeout, where it is the shorter one,
// raises 55P03. REQUIRES: patience > 0.
template <typename Attempt> bool within_patience(core::Micros patience, Attempt attempt) {
    const core::Micros milliseconds = Min((patience + 999) / 1000, INT_MAX);
    if (LockTimeout > 0 && LockTimeout <= milliseconds) {
        attempt();
        return true;
    }
    char *timeout = psprintf("%d", static_cast<int>(milliseconds));
    ErrorData *error = try_in_subtransaction([&] {
        with_settings({{"lock_timeout", timeout}}, [&] {
            attempt();
            // A timeout in the very moment in which the lock was granted has its error pending: raise it here.
            check_for_interrupts();
        });
        return true;
    });
    pfree(timeout);
    if (error != nullptr && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
        ReThrowError(error);
    return error == nullptr;
}

} // namespace idem
