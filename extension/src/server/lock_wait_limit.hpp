// Limited lock waits, which return false where the server raises 55P03.
#pragma once

#include "core/key_state.hpp"
#include "server/own_settings.hpp"
#include "server/subtransaction.hpp"

namespace idem {

// Runs `attempt` in a subtransaction. Returns false, and undoes the attempt, when it raised 55P03, as NOWAIT does. Any other
// error is raised unchanged.
template <typename Attempt> bool without_waiting(Attempt attempt) {
    ErrorData *error = try_in_subtransaction([&] {
        attempt();
        return true;
    });
    if (error != nullptr && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
        ReThrowError(error);
    return error == nullptr;
}

// As without_waiting, but each lock wait may last `limit` microseconds. A shorter lock_timeout of the caller still raises
// 55P03. REQUIRES: limit > 0.
template <typename Attempt> bool within_wait_limit(core::Micros limit, Attempt attempt) {
    const core::Micros milliseconds = Min((limit + 999) / 1000, INT_MAX);
    if (LockTimeout > 0 && LockTimeout <= milliseconds) {
        attempt();
        return true;
    }
    char *timeout = psprintf("%d", static_cast<int>(milliseconds));
    const bool acquired = without_waiting([&] {
        with_settings({{"lock_timeout", timeout}}, [&] {
            attempt();
            check_for_interrupts(); // raises the pending error of a timeout that fired just as the lock was granted
        });
    });
    pfree(timeout);
    return acquired;
}

} // namespace idem
