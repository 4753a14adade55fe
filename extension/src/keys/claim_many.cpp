// idem_claim_many: claims many keys and returns the new ones. One scan probes the sorted keys, and runs of absent keys are
// inserted in bulk. A key that the probe finds neither absent nor completed is claimed singly.
#include "keys/claim.hpp"
#include "keys/key_row.hpp"
#include "server/arguments.hpp"
#include "server/bytes.hpp"
#include "server/writable.hpp"
#include "statistics/stats.hpp"

#include <algorithm>

namespace {

using namespace idem;

struct Candidate {
    uint64 prefix; // the first bytes of the key, for quick comparison
    const text *key;
    int position; // in the array
};

// Bytewise order, as in the index. Equal keys are ordered by position, so that the first represents them all.
bool sorts_before(const Candidate &left, const Candidate &right) {
    if (left.prefix != right.prefix)
        return left.prefix < right.prefix;
    const int order = compare_bytes(left.key, right.key);
    return order != 0 ? order < 0 : left.position < right.position;
}

uint64 prefix_of(const text *key) {
    uint64 prefix = 0;
    memcpy(&prefix, VARDATA_ANY(key), Min(sizeof prefix, VARSIZE_ANY_EXHDR(key)));
    return pg_ntoh64(prefix);
}

Candidate *candidates_of(ArrayType *array, int *count) {
    Datum *elements;
    bool *nulls;
    deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, count);
    auto *candidates =
        static_cast<Candidate *>(MemoryContextAllocHuge(CurrentMemoryContext, Max(*count, 1) * sizeof(Candidate)));
    for (int i = 0; i < *count; i++) {
        if (nulls[i])
            raise_null_argument("key");
        const text *key = DatumGetTextPP(elements[i]);
        check_key(key);
        candidates[i] = {prefix_of(key), key, i};
    }
    return candidates;
}

// Sorts the candidates and removes duplicates. Returns how many remain.
int sort_unique(Candidate *candidates, int count) {
    std::sort(candidates, candidates + count, sorts_before);
    auto *end = std::unique(candidates, candidates + count, [](const Candidate &left, const Candidate &right) {
        return left.prefix == right.prefix && compare_bytes(left.key, right.key) == 0;
    });
    return static_cast<int>(end - candidates);
}

// Claims the candidates in order and marks the new ones by position.
class BatchClaim {
  public:
    BatchClaim(const KeyTable &table, const ClaimRequest &request, int candidates, bool *is_new)
        : table_(table), request_(request), is_new_(is_new), min_run_(Max(kMinRun, candidates / kMaxRuns)),
          max_run_(Max(kMaxRun, candidates / kMaxRuns)) {
        const int capacity = Min(max_run_, candidates);
        run_ = static_cast<const Candidate **>(palloc(sizeof(Candidate *) * (capacity + 1)));
        keys_ = static_cast<const text **>(palloc(sizeof(text *) * (capacity + 1)));
    }

    void claim(const Candidate *candidates, int count) {
        if (RecoveryInProgress())
            return claim_each(candidates, count);
        core::Micros now = 0;
        Prober prober;
        begin_probing(&prober, table_);
        for (int i = 0; i < count; i++) {
            CHECK_FOR_INTERRUPTS();
            if (i % kKeysPerClockReading == 0)
                now = clock_now();
            const Candidate &candidate = candidates[i];
            const Probe found = probe_next(&prober, request_.scope, candidate.key);
            if (found.presence == Presence::absent) {
                run_[run_length_++] = &candidate;
                if (run_length_ < max_run_)
                    continue;
                end_probing(&prober);
                flush();
            } else if (found.presence == Presence::found && found.in_snapshot && is_completed(table_, found, now)) {
                continue;
            } else {
                end_probing(&prober);
                flush(); // in order: the keys before this one must be claimed before any wait for it
                claim_one(candidate);
            }
            begin_probing(&prober, table_);
        }
        end_probing(&prober);
        flush();
    }

    // Called once, after the whole batch. Each repetition of a key in the array counts as a duplicate.
    void count_outcomes(int keys) const {
        stats::count(request_.scope, stats::Counter::acquired, granted_ - taken_over_);
        stats::count(request_.scope, stats::Counter::takeovers, taken_over_);
        stats::count(request_.scope, stats::Counter::duplicates, keys - granted_);
    }

  private:
    // Below kMinRun, single insertions are cheaper than a subtransaction. A call makes only some tens of subtransactions,
    // because each one beyond 64 slows the snapshots of other sessions.
    static constexpr int kMinRun = 8;
    static constexpr int kMaxRuns = 32;
    static constexpr int kMaxRun = 4096;
    static constexpr int kKeysPerClockReading = 64;

    void claim_each(const Candidate *candidates, int count) {
        for (int i = 0; i < count; i++)
            claim_one(candidates[i]);
    }

    void claim_one(const Candidate &candidate) {
        ClaimRequest request = request_;
        request.key = candidate.key;
        const Claimed claimed = claim_key(table_, request);
        if (!is_granted(claimed.outcome) && claimed.outcome != core::Outcome::completed)
            count_outcome(request, claimed.outcome);
        raise_if_held(claimed, candidate.key);
        is_new_[candidate.position] = is_granted(claimed.outcome);
        taken_over_ += claimed.outcome == core::Outcome::taken_over;
        granted_ += is_granted(claimed.outcome);
    }

    void flush() {
        const int count = run_length_;
        run_length_ = 0;
        if (count == 0)
            return;
        prevent_unless_writable(request_.function);
        if (count >= min_run_ && insert_run(count))
            return;
        for (int i = 0; i < count; i++)
            claim_one(*run_[i]);
    }

    bool insert_run(int count) {
        for (int i = 0; i < count; i++)
            keys_[i] = run_[i]->key;
        ClaimRequest first = request_;
        first.key = keys_[0];
        if (!insert_keys(table_, new_key_row(first, clock_now()), keys_, count))
            return false;
        for (int i = 0; i < count; i++)
            is_new_[run_[i]->position] = true;
        granted_ += count;
        return true;
    }

    const KeyTable &table_;
    const ClaimRequest &request_;
    bool *is_new_;
    const int min_run_;
    const int max_run_;
    const Candidate **run_;
    const text **keys_;
    int run_length_ = 0;
    int granted_ = 0;
    int taken_over_ = 0;
};
static_assert(std::is_trivially_destructible_v<BatchClaim>);

bool *claim_candidates(Candidate *candidates, int count, const ClaimRequest &request) {
    auto *is_new = static_cast<bool *>(palloc0(Max(count, 1)));
    const int distinct = sort_unique(candidates, count);
    const KeyTable table = open_keys(Access::write, KeySpace::keys);
    BatchClaim batch(table, request, distinct, is_new);
    batch.claim(candidates, distinct);
    batch.count_outcomes(count);
    close_keys(table);
    return is_new;
}

void return_new_keys(FunctionCallInfo fcinfo, ArrayType *array, const bool *is_new) {
    auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    ArrayIterator elements = array_create_iterator(array, 0, nullptr);
    Datum key;
    bool is_null;
    for (int i = 0; array_iterate(elements, &key, &is_null); i++)
        if (is_new[i])
            tuplestore_putvalues(result->setResult, result->setDesc, &key, &is_null);
    array_free_iterator(elements);
}

} // namespace

SQL_FUNCTION(idem_claim_many) {
    if (PG_ARGISNULL(0))
        raise_null_argument("keys");
    ArrayType *array = PG_GETARG_ARRAYTYPE_P(0);
    ClaimRequest request{};
    request.function = "idem_claim_many()";
    request.scope = scope_argument(fcinfo, 2);
    apply_policy(&request, scope_policy(request.scope), optional_interval(fcinfo, 1));
    request.waits_for_commit = true;
    int count;
    Candidate *candidates = candidates_of(array, &count);
    InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
    const bool *is_new = claim_candidates(candidates, count, request);
    return_new_keys(fcinfo, array, is_new);
    return Datum{0};
}
