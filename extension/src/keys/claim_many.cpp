// idem_claim_many: claims many keys and returns the new ones. The sorted keys are classified and inserted in chunks, so that
// the leaves of the index that a chunk was searched on are still in the processor's cache when its entries are made. A key that
// is neither absent nor completed is claimed singly.
#include "keys/claim.hpp"
#include "keys/key_row.hpp"
#include "server/arguments.hpp"
#include "server/bytes.hpp"
#include "server/subtransaction.hpp"
#include "server/writable.hpp"
#include "statistics/stats.hpp"
#include "storage/key_store.hpp"

#include <algorithm>

namespace {

using namespace idem;

struct Candidate {
    uint64 prefix; // the first bytes of the key, for quick comparison
    const text *key;
    int position; // in the array
};

// Millions of keys may be sorted.
void check_for_interrupts_at_times() {
    static constexpr unsigned kInterval = 4096;
    static constinit unsigned calls = 0;
    if (++calls % kInterval == 0)
        check_for_interrupts();
}

// Bytewise order, as in the index. Equal keys are ordered by position, so that the first represents them all.
bool sorts_before(const Candidate &left, const Candidate &right) {
    check_for_interrupts_at_times();
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
        check_for_interrupts_at_times();
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
        check_for_interrupts_at_times();
        return left.prefix == right.prefix && compare_bytes(left.key, right.key) == 0;
    });
    return static_cast<int>(end - candidates);
}

// Keys that were classified together: those that are absent, up to the first that must be claimed singly.
struct Chunk {
    const Candidate *absent[kMaxInsertedKeys];
    int count;
    int classified;          // candidates, the one that must be claimed singly included
    const Candidate *single; // that one, or nullptr
};

// Claims the candidates in order and marks the new ones by position.
class BatchClaim {
  public:
    BatchClaim(const KeyTable &table, const ClaimRequest &request, int candidates, bool *is_new)
        : table_(table), request_(request), is_new_(is_new), max_run_(Max(kMaxRun, candidates / kMaxRuns)),
          memory_(AllocSetContextCreate(CurrentMemoryContext, "idem single claims", ALLOCSET_DEFAULT_SIZES)) {
        run_ = static_cast<const Candidate **>(palloc(sizeof *run_ * (Min(max_run_, candidates) + kMaxInsertedKeys)));
    }

    void claim(const Candidate *candidates, int count) {
        const core::Micros began_at = clock_now();
        if (RecoveryInProgress())
            claim_each(candidates, count);
        else
            claim_in_chunks(candidates, count);
        if (inserter_.table != nullptr)
            close_key_inserter(inserter_);
        const core::Micros now = clock_now();
        if (request_.ttl != core::kForever && may_have_waited(began_at + request_.ttl / 1000, now))
            count_from(now, candidates, count);
    }

    // Called once, after the whole batch. Each repetition of a key in the array counts as a duplicate.
    void count_outcomes(int keys) const {
        stats::count(request_.scope, stats::Counter::acquired, granted_ - taken_over_);
        stats::count(request_.scope, stats::Counter::takeovers, taken_over_);
        stats::count(request_.scope, stats::Counter::duplicates, keys - granted_);
    }

  private:
    // The retention of all new keys counts from the end of a call that may have waited for the last of them: the first could
    // be over before. A large batch takes its time without a wait, hence a thousandth of the retention.
    void count_from(core::Micros now, const Candidate *candidates, int count) {
        for (int i = 0; i < count; i++) {
            CHECK_FOR_INTERRUPTS();
            if (!is_new_[candidates[i].position])
                continue;
            const MemoryContext outer = MemoryContextSwitchTo(memory_);
            hold_placement(table_);
            FoundRow found = find_row(table_, request_.scope, candidates[i].key);
            KeyRow row = read_row(table_, found);
            row.set(KeyColumn::created_at, TimestampTzGetDatum(now));
            row.set(KeyColumn::expires_at, TimestampTzGetDatum(deadline_after(now, request_.ttl, "ttl")));
            if (replace_key(table_, &found.version, row, true) != Write::done)
                elog(ERROR, "a key that was just claimed was changed by another transaction");
            release_placement(table_);
            MemoryContextSwitchTo(outer);
            MemoryContextReset(memory_);
        }
    }

    // Below kMinRun, single insertions are cheaper than a subtransaction. A run is a subtransaction: it is what a key costs
    // that another transaction inserts between the search and the insertion. A key that must be claimed singly ends a run. A
    // call makes only some tens of runs, because each beyond 64 slows the snapshots of other sessions.
    static constexpr int kMinRun = 8;
    static constexpr int kMaxRuns = 32;
    static constexpr int kMostRuns = 48;
    static constexpr int kMaxRun = 512;

    void claim_each(const Candidate *candidates, int count) {
        for (int i = 0; i < count; i++)
            claim_one(candidates[i], false);
    }

    void claim_in_chunks(const Candidate *candidates, int count) {
        for (int next = 0; next < count;) {
            Chunk chunk = next_chunk(candidates + next, count - next);
            next += chunk.classified;
            if (chunk.count > 0)
                prevent_unless_writable(request_.function);
            if (chunk.count >= kMinRun && runs_ < kMostRuns) {
                next += insert_run(&chunk, candidates + next, count - next);
            } else {
                release_placement(table_);
                claim_singly(chunk.absent, chunk.count);
            }
            if (chunk.single != nullptr)
                claim_one(*chunk.single, true);
        }
    }

    // `was_classified`: another classification would show nothing new.
    void claim_one(const Candidate &candidate, bool was_classified) {
        CHECK_FOR_INTERRUPTS();
        ClaimRequest request = request_;
        request.key = candidate.key;
        request.wants_row = was_classified;
        const MemoryContext outer = MemoryContextSwitchTo(memory_);
        const Claimed claimed = claim_key(table_, request);
        MemoryContextSwitchTo(outer);
        MemoryContextReset(memory_);
        if (!is_granted(claimed.outcome) && claimed.outcome != core::Outcome::completed)
            count_outcome(request, claimed.outcome);
        raise_if_held(claimed, candidate.key);
        is_new_[candidate.position] = is_granted(claimed.outcome);
        taken_over_ += claimed.outcome == core::Outcome::taken_over;
        granted_ += is_granted(claimed.outcome);
    }

    void claim_singly(const Candidate *const *candidates, int count) {
        for (int i = 0; i < count; i++)
            claim_one(*candidates[i], false);
    }

    // Classifies the next keys, until a chunk of them is absent, or one must be claimed singly: those before it are claimed
    // before any wait for it. Holds the placement, which the caller releases.
    Chunk next_chunk(const Candidate *candidates, int count) {
        Chunk chunk;
        chunk.count = chunk.classified = 0;
        chunk.single = nullptr;
        hold_placement(table_);
        if (table_.places != nullptr)
            group_ = nullptr; // it was classified when the placement was held before
        uint64 placement = placement_number(table_);
        RowFinder finder;
        finder.table = nullptr;
        while (chunk.classified < count && chunk.count + kKeysPerGroup <= kMaxInsertedKeys && chunk.single == nullptr) {
            CHECK_FOR_INTERRUPTS();
            const Candidate *next = candidates + chunk.classified;
            if (group_ == nullptr || next >= group_ + group_size_)
                classify_candidates(&finder, next, Min(count - chunk.classified, kKeysPerGroup));
            if (placement_number(table_) != placement) { // begin again: what was absent may be there now
                placement = placement_number(table_);
                chunk = {};
                group_ = nullptr;
                continue;
            }
            add_group(next, &chunk);
        }
        close_finder(&finder);
        return chunk;
    }

    void classify_candidates(RowFinder *finder, const Candidate *candidates, int count) {
        const text *keys[kKeysPerGroup];
        for (int i = 0; i < count; i++)
            keys[i] = candidates[i].key;
        classify_group(finder, table_, request_.scope, keys, count, classes_);
        group_ = candidates;
        group_size_ = count;
    }

    // Adds the rest of the group, from `next` on. What is behind a key that must be claimed singly waits for the next chunk.
    void add_group(const Candidate *next, Chunk *chunk) {
        for (; next < group_ + group_size_ && chunk->single == nullptr; next++) {
            chunk->classified++;
            const KeyClass shown = classes_[next - group_];
            if (shown == KeyClass::absent)
                chunk->absent[chunk->count++] = next;
            else if (shown == KeyClass::other)
                chunk->single = next;
        }
    }

    // Inserts a chunk and those that follow it, in one subtransaction. If one of the keys is not new, all are claimed singly.
    // Returns how many of the candidates behind the chunk it has claimed or found done; `chunk` is the last one then.
    //
    // Until this transaction ends, rows that it only deleted again would look like an uncommitted holder's. Rows of an aborted
    // subtransaction are dead at once.
    int insert_run(Chunk *chunk, const Candidate *candidates, int count) {
        int next = 0;
        int run_length = 0;
        bool all_new = true;
        runs_++;
        if (inserter_.table == nullptr)
            inserter_ = open_key_inserter(table_);
        in_subtransaction([&] {
            for (;;) {
                std::copy_n(chunk->absent, chunk->count, run_ + run_length);
                run_length += chunk->count;
                all_new = insert(*chunk);
                release_placement(table_);
                if (!all_new || chunk->single != nullptr || next == count || run_length >= max_run_)
                    return all_new;
                *chunk = next_chunk(candidates + next, count - next);
                next += chunk->classified;
            }
        });
        if (!all_new) {
            claim_singly(run_, run_length);
            return next;
        }
        for (int i = 0; i < run_length; i++)
            is_new_[run_[i]->position] = true;
        granted_ += run_length;
        return next;
    }

    bool insert(const Chunk &chunk) {
        if (chunk.count == 0)
            return true;
        const text *keys[kMaxInsertedKeys];
        for (int i = 0; i < chunk.count; i++)
            keys[i] = chunk.absent[i]->key;
        KeyTarget target;
        if (!open_key_target(inserter_, &target))
            return false;
        ClaimRequest first = request_;
        first.key = keys[0];
        return insert_keys(inserter_, target, new_key_row(first, clock_now()), keys, chunk.count);
    }

    const KeyTable &table_;
    const ClaimRequest &request_;
    bool *is_new_;
    const int max_run_;
    const Candidate **run_;            // the absent keys of the run
    const MemoryContext memory_;       // of a single claim
    const Candidate *group_ = nullptr; // those that were classified last
    int group_size_ = 0;
    KeyClass classes_[kKeysPerGroup];
    KeyInserter inserter_{}; // from the first run on
    int runs_ = 0;
    int granted_ = 0;
    int taken_over_ = 0;
};
static_assert(std::is_trivially_destructible_v<BatchClaim>);

bool *claim_candidates(Candidate *candidates, int count, const ClaimRequest &request) {
    auto *is_new = static_cast<bool *>(palloc0(Max(count, 1)));
    const int distinct = sort_unique(candidates, count);
    const KeyTable table = open_keys(Access::write, KeySpace::keys, request.scope);
    lock_index(table.primary_key);
    ClaimRequest settled = request;
    settle_retention(table, &settled);
    BatchClaim batch(table, settled, distinct, is_new);
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
