// idem lock
#include <idem/locks.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "holding.hpp"

namespace idem::cli {

namespace {

/// False: others may have been at work meanwhile.
bool free(held_lock &held, const settings &given) {
    try {
        return held.unlock();
    } catch (const error &problem) {
        // It was held to the end; that is all that the command relied on.
        if (!given.quiet)
            complain("could not unlock \"" + given.key + "\", it is free when its time is over: " + problem.what());
        return true;
    }
}

} // namespace

int run_locked(context &c) {
    const settings &given = c.given;
    signal_gate gate; // before the client's thread begins
    c.db.schema();    // whoever cannot connect is told at once

    child_options options;
    options.command = given.command;
    options.grace = given.grace;
    lock_options terms;
    terms.scope = given.scope;
    if (given.ttl)
        terms.lease = *given.ttl;
    bool started = false;
    terms.retry = patient_retry(gate, [&started] { return started; });
    try {
        held_lock held = wait_in_slices(given.wait, gate, [&](const patience &slice) {
            terms.wait = slice;
            return idem::lock(c.db, given.key, terms);
        });
        options.environment = {
            {"IDEM_LOCK", given.key}, {"IDEM_SCOPE", given.scope}, {"IDEM_FENCE", std::to_string(held.fence())}};
        started = true;
        const child_end end = run_while_held(options, gate, held.stop());
        if (end.stopped || held.lost() || !free(held, given))
            throw exit_error(kLeaseLost, "lock \"" + given.key + "\" was lost; the command " +
                                             (end.stopped ? "was stopped" : "had ended without being told") + " (exit code " +
                                             std::to_string(end.exit_code()) + ")");
        return end.exit_code();
    } catch (const interrupted &by) {
        return kSignal + by.signal;
    }
}

} // namespace idem::cli
