#include "keys/claim.hpp"

#include "keys/key_types.hpp"
#include "keys/wake_up.hpp"
#include "server/arguments.hpp"
#include "server/bytes.hpp"
#include "server/errors.hpp"
#include "server/lock_patience.hpp"
#include "server/writable.hpp"
#include "statistics/stats.hpp"
#include "storage/breakage.hpp"
#include "storage/fence.hpp"

namespace idem {

namespace {

using core::ClaimWrite;
using core::Outcome;
using core::State;

// Who waits for a lease looks again at least this often, as not everything that happens to a row wakes it. Where one looks
// for all that wait, it need not be often.
constexpr core::Micros kLongestNap = 100 * 1000;
constexpr core::Micros kLongestNapInQueue = 1000 * 1000;
constexpr core::Micros kShortNap = 1000;

// A fingerprint of the standard form starts with its algorithm's version, a small number.
bool is_standard(const bytea *fingerprint) {
    constexpr Size kBytes = 1 + PG_SHA256_DIGEST_LENGTH;
    constexpr uint8 kGreatestVersion = 15;
    return VARSIZE_ANY_EXHDR(fingerprint) == kBytes && static_cast<uint8>(*VARDATA_ANY(fingerprint)) <= kGreatestVersion;
}

// Across versions nothing can be said; all else is compared byte by byte.
bool fingerprints_differ(Datum stored, const bytea *given) {
    const auto *left = reinterpret_cast<const bytea *>(PG_DETOAST_DATUM_PACKED(stored));
    if (is_standard(left) && is_standard(given) && *VARDATA_ANY(left) != *VARDATA_ANY(given))
        return false;
    return compare_bytes(left, given) != 0;
}

core::KeyFacts facts_for(const ClaimRequest &request, const Probe &found, const KeyRow &row) {
    core::KeyFacts facts = facts_of(row, found.own_transaction, request.manual_policy);
    facts.fingerprints_differ = request.fingerprint != nullptr && !row.is_null(KeyColumn::fingerprint) &&
                                fingerprints_differ(row.get(KeyColumn::fingerprint), request.fingerprint);
    facts.same_owner = is_owner(row, request.owner);
    return facts;
}

void set_optional(KeyRow *row, AttrNumber column, const void *value) {
    if (value != nullptr)
        row->set(column, PointerGetDatum(value));
}

void set_lease(KeyRow *row, const ClaimRequest &request, core::Micros now) {
    row->set(KeyColumn::lease_until, TimestampTzGetDatum(deadline_after(now, request.lease, "lease")));
}

// The part of a row that says who holds the key now, and until when.
void set_holder(KeyRow *row, const ClaimRequest &request, core::Micros now, int32 attempt, int64 fence_floor) {
    row->set(KeyColumn::created_at, TimestampTzGetDatum(now));
    row->set(KeyColumn::expires_at, TimestampTzGetDatum(deadline_after(now, request.ttl, "ttl")));
    row->set(KeyColumn::attempt, Int32GetDatum(attempt));
    row->set_null(KeyColumn::owner);
    set_optional(row, KeyColumn::owner, request.owner);
    set_optional(row, KeyColumn::fingerprint, request.fingerprint);
    if (request.lease == 0) {
        // Completed as soon as it commits; until then nobody else can tell.
        row->set(KeyColumn::state, CharGetDatum(static_cast<char>(State::completed)));
        row->set_null(KeyColumn::fence);
        row->set_null(KeyColumn::lease_until);
    } else {
        row->set(KeyColumn::state, CharGetDatum(static_cast<char>(State::in_progress)));
        row->set(KeyColumn::fence, Int64GetDatum(next_fence(fence_floor)));
        set_lease(row, request, now);
    }
}

KeyRow changed_row(const KeyRow &stored, ClaimWrite write, const ClaimRequest &request, core::Micros now) {
    const int64 fence = stored.is_null(KeyColumn::fence) ? 0 : DatumGetInt64(stored.get(KeyColumn::fence));
    KeyRow row = stored;
    switch (write) {
    case ClaimWrite::restart:
        row = new_key_row(request, now, fence);
        break;
    case ClaimWrite::next_attempt:
        set_holder(&row, request, now, DatumGetInt32(stored.get(KeyColumn::attempt)) + 1, fence);
        break;
    case ClaimWrite::renew:
        set_lease(&row, request, now);
        if (request.space == KeySpace::locks) // its row need only outlive its lease
            row.set(KeyColumn::expires_at, TimestampTzGetDatum(deadline_after(now, request.ttl, "ttl")));
        if (row.is_null(KeyColumn::fingerprint))
            set_optional(&row, KeyColumn::fingerprint, request.fingerprint);
        break;
    case ClaimWrite::mark_in_doubt:
        row.set(KeyColumn::state, CharGetDatum(static_cast<char>(State::in_doubt)));
        break;
    case ClaimWrite::none:
        break;
    }
    return row;
}

// A lock that is taken may be asserted by transactions that are still open (lock.cpp).
bool may_be_asserted(const KeyTable &table, const KeyRow &stored) {
    return table.space == KeySpace::locks && state_of(stored) == State::in_progress;
}

// How long a claim may still wait, and how it does so.
class Patience {
  public:
    explicit Patience(const ClaimRequest &request) : request_(request) {}

    // Waits for an uncommitted holder. False: not allowed to wait (any longer).
    bool wait_for_commit(const KeyTable &table, const Probe &busy) {
        if (busy.speculative_token != 0 || blocks_on_rows()) {
            wait_for_holder(table, busy);
            return true;
        }
        const core::Micros left = time_left();
        return left > 0 && wait_for_holder_within(table, busy, left);
    }

    // Sleeps until the row is changed, a lease ends, or a while is over, so that the caller looks again. False as above.
    bool wait_for_lease(core::Micros lease_left) {
        const core::Micros left = time_left();
        if (left <= 0)
            return false;
        if (request_.is_queued || is_waiting_) {
            const core::Micros nap = request_.is_queued ? kLongestNapInQueue : kLongestNap;
            sleep_until_woken(Min(Min(nap, left), Max(lease_left, core::Micros{1})));
            return true;
        }
        // What changed before we are known to wait wakes nobody: look once more.
        waiters_ = waiters_of(request_.space, request_.scope, request_.key);
        start_waiting(waiters_);
        is_waiting_ = true;
        return true;
    }

    // Takes the row from those who assert that it is not taken over: the lock waits for the end of their transactions.
    Write wait_for_asserters(const KeyTable &table, ItemPointer version) {
        if (blocks_on_rows())
            return lock_row(table, version, LockTupleExclusive, LockWaitBlock);
        // One by one: a wait for the lock would have its patience anew for each of them.
        for (;; check_for_interrupts()) {
            const Write write = lock_row(table, version, LockTupleExclusive, LockWaitSkip);
            const core::Micros left = time_left();
            if (write != Write::busy || left <= 0)
                return write;
            const TransactionId asserter = locker_of(table, *version);
            if (!TransactionIdIsValid(asserter))
                sleep_until_woken(Min(left, kShortNap)); // who is in the act of locking it cannot be waited for
            else if (!wait_for_transaction_within(table, asserter, *version, left))
                return Write::busy;
        }
    }

    bool blocks_on_rows() const { return request_.waits_for_commit || request_.wait_until == core::kForever; }

    void end() {
        if (is_waiting_)
            stop_waiting(waiters_);
    }

  private:
    core::Micros time_left() const { return idem::time_left(request_.wait_until); }

    const ClaimRequest &request_;
    LOCKTAG waiters_;
    bool is_waiting_ = false;
};

Claimed outcome_of(Outcome outcome, core::Micros now) {
    Claimed claimed;
    claimed.outcome = outcome;
    claimed.has_row = false;
    claimed.at = now;
    return claimed;
}

Claimed outcome_with(Outcome outcome, const KeyRow &row, const ItemPointerData &version, core::Micros now) {
    Claimed claimed = outcome_of(outcome, now);
    claimed.has_row = true;
    claimed.row = row;
    claimed.version = version;
    return claimed;
}

} // namespace

core::Micros retention(const ScopePolicy &policy, const Interval *explicit_ttl) {
    const core::Micros span = explicit_ttl != nullptr ? positive_span_of(explicit_ttl, "ttl") : policy.ttl;
    return policy.keep_forever ? core::kForever : span;
}

void apply_policy(ClaimRequest *request, const ScopePolicy &policy, const Interval *explicit_ttl) {
    request->ttl = retention(policy, explicit_ttl);
    request->manual_policy = policy.manual_on_lease_expiry;
}

KeyRow new_key_row(const ClaimRequest &request, core::Micros now, int64 fence_floor) {
    KeyRow row;
    memset(row.values, 0, sizeof row.values);
    memset(row.nulls, true, sizeof row.nulls);
    row.set(KeyColumn::scope, PointerGetDatum(request.scope));
    row.set(KeyColumn::key, PointerGetDatum(request.key));
    set_holder(&row, request, now, 1, fence_floor);
    return row;
}

namespace {

// What a claim writes over the row that it found.
struct Change {
    Write write;
    KeyRow row;
    ItemPointerData version; // done: of the row as it is now
    core::Micros at;
};

Change change_row(const KeyTable &table, const ClaimRequest &request, const Probe &found, const KeyRow &stored,
                  ClaimWrite write, core::Micros now, Patience *patience) {
    Change change;
    change.version = found.tid;
    change.at = now;
    bool blocks = patience->blocks_on_rows();
    if (write != ClaimWrite::renew && may_be_asserted(table, stored)) {
        change.write = patience->wait_for_asserters(table, &change.version);
        if (change.write != Write::done)
            return change;
        change.at = clock_now();
        blocks = true; // nobody is left to wait for
    }
    change.row = changed_row(stored, write, request, change.at);
    change.write = replace_key(table, &change.version, change.row, blocks);
    return change;
}

Claimed claim_with(Patience *patience, const KeyTable &table, const ClaimRequest &request) {
    for (;; check_for_interrupts()) {
        const Probe found = probe(table, request.scope, request.key);
        const core::Micros now = clock_now();
        if (found.presence == Presence::absent) {
            prevent_unless_writable(request.function);
            const KeyRow row = new_key_row(request, now);
            ItemPointerData version;
            if (insert_key(table, row, &version))
                return outcome_with(Outcome::acquired, row, version, now);
            continue;
        }
        if (found.presence == Presence::busy) {
            if (!patience->wait_for_commit(table, found))
                return outcome_of(Outcome::in_flight, now);
            if constexpr (kIgnoreWhatCameMeanwhile)
                return outcome_with(Outcome::acquired, new_key_row(request, now), found.tid, now);
            continue;
        }
        const KeyRow stored = read_row(table, found);
        const core::KeyFacts facts = facts_for(request, found, stored);
        const core::ClaimDecision decision = core::decide_claim(facts, {now, request.lease != 0});
        if (decision.outcome == Outcome::in_flight) {
            // Waiting for oneself would last for ever, and so would waiting on a standby: its snapshot stays.
            if (found.own_transaction || RecoveryInProgress() || !patience->wait_for_lease(facts.lease_until - now))
                return outcome_with(decision.outcome, stored, found.tid, now);
            continue;
        }
        require_in_snapshot(table, found);
        // A doubt that cannot be written down is told all the same.
        if (decision.write == ClaimWrite::none ||
            (decision.write == ClaimWrite::mark_in_doubt && (!request.records_doubt || XactReadOnly)))
            return outcome_with(decision.outcome, stored, found.tid, now);
        prevent_unless_writable(request.function);
        const Change change = change_row(table, request, found, stored, decision.write, now, patience);
        if (change.write == Write::done)
            return outcome_with(decision.outcome, change.row, change.version, change.at);
        if (change.write == Write::busy && !patience->wait_for_lease(kLongestNap))
            return outcome_of(Outcome::in_flight, now);
    }
}

} // namespace

Claimed claim_key(const KeyTable &table, const ClaimRequest &request) {
    Patience patience(request);
    const Claimed claimed = claim_with(&patience, table, request);
    patience.end();
    return claimed;
}

Claimed claim_key(const ClaimRequest &request) {
    const KeyTable table = open_keys(Access::write, request.space);
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

void raise_if_held(const Claimed &claimed, const text *key) {
    if (claimed.outcome == Outcome::in_doubt)
        ereport(
            ERROR,
            (errcode(ERRCODE_IDEM_UNDECIDED), errmsg("key \"%s\" is in doubt", text_to_cstring(key)),
             errdetail("Its holder's lease ran out before it completed, and the scope leaves it to an operator what to do."),
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

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_claim);
PG_FUNCTION_INFO_V1(idem_try_claim);

PGDLLEXPORT Datum idem_claim(PG_FUNCTION_ARGS) {
    ClaimRequest request = transactional_request(fcinfo, "idem_claim()");
    request.waits_for_commit = true;
    const Claimed claimed = claim_key(request);
    raise_if_held(claimed, request.key);
    PG_RETURN_BOOL(is_granted(claimed.outcome));
}

PGDLLEXPORT Datum idem_try_claim(PG_FUNCTION_ARGS) {
    ClaimRequest request = transactional_request(fcinfo, "idem_try_claim()");
    request.records_doubt = true;
    const Claimed claimed = claim_key(request);
    PG_RETURN_DATUM(outcome_datum(claimed.outcome));
}

} // extern "C"
