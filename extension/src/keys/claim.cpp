#include "keys/claim.hpp"

#include "keys/key_row.hpp"
#include "keys/key_types.hpp"
#include "keys/wait_limit.hpp"
#include "server/arguments.hpp"
#include "server/errors.hpp"
#include "server/pause.hpp"
#include "server/transaction_block.hpp"
#include "server/writable.hpp"
#include "statistics/stats.hpp"
#include "storage/key_wait.hpp"
#include "storage/key_write_in_time.hpp"

namespace idem {

namespace {

using core::ClaimWrite;
using core::Outcome;
using core::State;

// One claim of one key. Each attempt either sets the outcome or requests another attempt.
class Claim {
  public:
    Claim(const KeyTable &table, const ClaimRequest &request) : table_(table), request_(request), wait_limit_(request) {}

    Claimed run() {
        bool classify_first = !request_.wants_row; // most claims find no row, or one whose work is done
        while (!try_once(classify_first)) {
            classify_first = false;
            check_for_interrupts();
        }
        wait_limit_.end();
        return claimed_;
    }

  private:
    // What the key's row shows. `found` has the row of a key that is neither absent nor done, and the time.
    KeyClass read_key(bool classify_first, FoundRow *found) const {
        const KeyClass shown = classify_first ? classify(table_, request_.scope, request_.key, &found->at) : KeyClass::other;
        if (shown != KeyClass::other)
            return shown;
        *found = find_row(table_, request_.scope, request_.key);
        pause_at("claim found row");
        return found->presence == Presence::absent ? KeyClass::absent : KeyClass::other;
    }

    // True: the outcome is known.
    bool try_once(bool classify_first) {
        hold_placement(table_);
        FoundRow found;
        const KeyClass shown = read_key(classify_first, &found);
        if (shown != KeyClass::other) {
            const bool is_decided = shown == KeyClass::absent ? insert(found.at) : decide(Outcome::completed, found.at);
            release_placement(table_);
            return is_decided;
        }
        if (found.presence == Presence::busy) {
            release_placement(table_);
            return !wait_limit_.wait_for_commit(table_, found) && decide(Outcome::in_flight, found.at);
        }
        const KeyRow stored = read_row(table_, found);
        claimed_.is_own = found.own_transaction;
        const core::KeyFacts facts = claim_facts(request_, found, stored);
        const core::ClaimDecision decision = decide_at(facts, found.at);
        // A new retention is written while the placement is held under which the window was found open.
        if (is_in_ring(found.version) && decision.write == ClaimWrite::restart) {
            require_in_snapshot(table_, found);
            const Write write = write_over(stored, facts, found.version, found.at, false);
            release_placement(table_);
            if (write == Write::busy && wait_limit_.blocks_on_rows())
                return wait_for_locker(found.version);
            return write == Write::done ||
                   (write == Write::busy && !wait_limit_.wait_for_row() && decide(Outcome::in_flight, found.at));
        }
        release_placement(table_);
        if (decision.outcome == Outcome::in_flight) {
            // A wait for the own transaction would never end, and neither would one on a standby, whose snapshot stays.
            const bool may_wait = !found.own_transaction && !RecoveryInProgress();
            return !(may_wait && wait_limit_.wait_for_lease(facts.lease_until - found.at)) &&
                   decide(decision.outcome, stored, found.version, found.at);
        }
        require_in_snapshot(table_, found);
        if (!writes(decision.write))
            return decide(decision.outcome, stored, found.version, found.at);
        return change(found, stored, facts, decision.write);
    }

    core::ClaimDecision decide_at(const core::KeyFacts &facts, core::Micros now) const {
        return core::decide_claim(facts, {now, request_.lease != 0});
    }

    bool decide(Outcome outcome, core::Micros now) {
        claimed_.outcome = outcome;
        claimed_.at = now;
        return true;
    }

    bool decide(Outcome outcome, const KeyRow &row, const KeyVersion &version, core::Micros now) {
        claimed_.has_row = true;
        claimed_.row = row;
        claimed_.version = version;
        return decide(outcome, now);
    }

    bool insert(core::Micros now) {
        prevent_unless_writable(request_.function);
        KeyRow row;
        KeyVersion version;
        return insert_key_in_time(table_, &version, &now,
                                  [&](core::Micros at) -> const KeyRow & { return row = new_key_row(request_, at); }) &&
               decide(Outcome::acquired, row, version, now);
    }

    // Always false: the caller tries again.
    bool wait_for_locker(const KeyVersion &version) {
        const TransactionId locker = locker_of(table_, version);
        if (TransactionIdIsValid(locker))
            wait_for_transaction(table_, locker, version);
        return false;
    }

    // Writes what the state table says of the stored row.
    Write write_over(const KeyRow &stored, const core::KeyFacts &facts, KeyVersion version, core::Micros now, bool wait) {
        prevent_unless_writable(request_.function);
        core::ClaimDecision decision;
        KeyRow row;
        const Write write = replace_key_in_time(table_, &version, &now, wait, [&](core::Micros at) -> const KeyRow & {
            decision = decide_at(facts, at);
            return row = changed_key_row(stored, decision.write, request_, at);
        });
        if (write == Write::done)
            decide(decision.outcome, row, version, now);
        return write;
    }

    // Whether the claim writes. A doubt that cannot be recorded is still reported.
    bool writes(ClaimWrite write) const {
        return write != ClaimWrite::none && (write != ClaimWrite::mark_in_doubt || (request_.records_doubt && !XactReadOnly));
    }

    bool change(const FoundRow &found, const KeyRow &stored, const core::KeyFacts &facts, ClaimWrite change) {
        prevent_unless_writable(request_.function);
        KeyVersion version = found.version;
        core::Micros now = found.at;
        bool blocks = wait_limit_.blocks_on_rows();
        Write write = Write::done;
        if (is_takeover_asserted(stored, change)) {
            write = wait_limit_.wait_for_asserters(table_, &version);
            now = Max(now, clock_now());
            blocks = true; // the row lock is held, so nothing is left to wait for
        }
        if (write == Write::done)
            write = write_over(stored, facts, version, now, blocks);
        return write == Write::done || (write == Write::busy && !wait_limit_.wait_for_row() && decide(Outcome::in_flight, now));
    }

    bool is_takeover_asserted(const KeyRow &stored, ClaimWrite write) const {
        return request_.takeover_waits_for_asserters && write != ClaimWrite::renew && state_of(stored) == State::in_progress;
    }

    const KeyTable &table_;
    const ClaimRequest &request_;
    WaitLimit wait_limit_;
    Claimed claimed_{};
};
static_assert(std::is_trivially_destructible_v<Claim>);

} // namespace

void settle_retention(const KeyTable &table, ClaimRequest *request) {
    const core::Micros retention = fixed_retention(table);
    if (retention == 0)
        return;
    if (request->lease != 0)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("a key in a ring cannot have a lease"),
                        errdetail("Scope \"%s\" lives in a ring.", text_to_cstring(request->scope)),
                        errhint("Claim without a lease, or take the scope out of the ring.")));
    if (retention < request->least_ttl)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("the retention of the scope's ring is too short"),
                 errdetail("%s has to keep a key for at least %lld seconds, and the ring of scope \"%s\" keeps it for %lld.",
                           request->function, static_cast<long long>(request->least_ttl / USECS_PER_SEC),
                           text_to_cstring(request->scope), static_cast<long long>(retention / USECS_PER_SEC)),
                 errhint("Put the scope into a ring with a longer retention, or into none.")));
    if (request->ttl_is_given && request->ttl != retention)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("ttl must be the retention of the scope's ring"),
                        errdetail("Scope \"%s\" lives in a ring, whose keys are all kept for the same time.",
                                  text_to_cstring(request->scope)),
                        errhint("Give no ttl.")));
    request->ttl = retention;
}

Claimed claim_key(const KeyTable &table, const ClaimRequest &request) {
    if (table.places == nullptr)
        return Claim(table, request).run();
    ClaimRequest settled = request;
    settle_retention(table, &settled);
    return Claim(table, settled).run();
}

Claimed claim_key(const ClaimRequest &request) {
    const KeyTable table = open_keys(Access::write, request.space, request.scope);
    const Claimed claimed = claim_key(table, request);
    close_keys(table);
    count_outcome(request, claimed.outcome);
    return claimed;
}

void count_outcome(const ClaimRequest &request, Outcome outcome) {
    using stats::Counter;
    static constexpr Counter kCounter[core::kOutcomes] = {Counter::acquired,   Counter::takeovers,  Counter::in_flight,
                                                          Counter::duplicates, Counter::mismatches, Counter::in_doubt};
    stats::count(request.scope, kCounter[static_cast<int>(outcome)]);
}

void expect_work_after_claim(FunctionCallInfo fcinfo, const ClaimRequest &request, const Claimed &claimed) {
    if (is_granted(claimed.outcome) && request.lease == 0)
        expect_work_after(fcinfo, request.function,
                          "Send BEGIN before it, give a lease, or use idem_execute(). Is autocommit on?");
}

void raise_if_held(const Claimed &claimed, const text *key) {
    if (claimed.outcome == Outcome::in_doubt)
        ereport(ERROR,
                (errcode(ERRCODE_IDEM_UNDECIDED), errmsg("key \"%s\" is in doubt", text_to_cstring(key)),
                 errdetail("Its holder's lease ran out before it completed, and the scope leaves the decision to an operator."),
                 errhint("Settle it with idem_resolve or idem_forget.")));
    if (claimed.outcome == Outcome::in_flight)
        ereport(ERROR, (errcode(ERRCODE_IDEM_UNDECIDED), errmsg("key \"%s\" is in flight", text_to_cstring(key)),
                        claimed.has_row ? errdetail("Its holder's lease ends at %s.",
                                                    timestamptz_to_str(claimed.row.time(KeyColumn::lease_until)))
                                        : 0,
                        errhint("Try again later, or use idem_begin or idem_try_claim, which answer instead.")));
}

} // namespace idem

namespace {

using namespace idem;

ClaimRequest transactional_request(FunctionCallInfo fcinfo, const char *function) {
    ClaimRequest request{};
    request.function = function;
    request.key = key_argument(fcinfo, 0);
    request.scope = scope_argument(fcinfo, 2);
    apply_policy(&request, scope_policy(request.scope), optional_interval(fcinfo, 1));
    return request;
}

// Returns false for a duplicate. Waits for an uncommitted holder.
bool claim_or_wait(ClaimRequest *request) {
    request->waits_for_commit = true;
    const Claimed claimed = claim_key(*request);
    raise_if_held(claimed, request->key);
    return is_granted(claimed.outcome);
}

} // namespace

SQL_FUNCTION(idem_claim) {
    ClaimRequest request = transactional_request(fcinfo, "idem_claim()");
    PG_RETURN_BOOL(claim_or_wait(&request));
}

SQL_FUNCTION(idem_must_claim) {
    ClaimRequest request = transactional_request(fcinfo, "idem_must_claim()");
    if (!claim_or_wait(&request))
        ereport(ERROR,
                (errcode(ERRCODE_IDEM_DONE_BEFORE), errmsg("key \"%s\" was claimed before", text_to_cstring(request.key)),
                 errdetail("Its work has committed, or this transaction has claimed it before."),
                 errhint("Roll back; nothing is left to do.")));
    PG_RETURN_BOOL(true);
}

SQL_FUNCTION(idem_try_claim) {
    ClaimRequest request = transactional_request(fcinfo, "idem_try_claim()");
    request.records_doubt = true;
    const Claimed claimed = claim_key(request);
    require_function(fcinfo);
    PG_RETURN_DATUM(outcome_datum(claimed.outcome));
}
