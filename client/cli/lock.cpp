// idem lock
#include <idem/locks.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "holding.hpp"

namespace idem::cli {

namespace {

/// False: the lock was no longer held at the end of the command.
bool free(held_lock &held, const settings &given) {
    try {
        return held.unlock();
    } catch (const error &problem) {
        // The lock was held to the end of the command, and the command relied on no more.
        if (!given.quiet)
            complain("could not unlock \"" + given.key + "\", it becomes free when its lease ends: " + problem.what());
        return true;
    }
}

} // namespace

int run_locked(context &c) {
    const settings &given = c.given;
    signal_queue signals; // before the client's threads start
    c.db.schema();        // fails at once if there is no connection

    child_options options;
    options.command = given.command;
    options.grace = given.grace;
    lock_options terms;
    terms.scope = given.scope;
    if (given.ttl)
        terms.ttl = *given.ttl;
    bool started = false;
    terms.retry = minute_of_retries(signals, [&started] { return started; });
    try {
        held_lock held = wait_in_slices(given.wait, signals, [&](const wait_limit &slice) {
            terms.wait = slice;
            return idem::lock(c.db, given.key, terms);
        });
        options.environment = {
            {"IDEM_LOCK", given.key}, {"IDEM_SCOPE", given.scope}, {"IDEM_FENCE", std::to_string(held.fence())}};
        started = true;
        const child_end end = run_while_held(options, signals, held.stop());
        if (end.stopped || held.lost() || !free(held, given))
            throw exit_error(kLeaseLost, "lock \"" + given.key + "\" was lost; the command " +
                                             (end.stopped ? fate_of(end) : "had ended without being told") + " (exit code " +
                                             std::to_string(end.exit_code()) + ")");
        return end.exit_code();
    } catch (const interrupted &by) {
        return kSignal + by.signal;
    }
}

} // namespace idem::cli
