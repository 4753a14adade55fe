#include "operations/sweep_heap.hpp"

#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "statistics/stats.hpp"
#include "storage/key_store.hpp"
#include "storage/page_rows.hpp"

namespace idem {

namespace {

struct Candidate {
    OffsetNumber offset;
    core::KeyFacts facts;
    const text *scope; // nullptr for a counter
    bool needs_policy; // a key in progress: its scope's policy decides whether it is expired
    int held_before;   // expired rows before this one on the page that another transaction holds
};

struct Candidates {
    int count;
    int held;
    Candidate rows[MaxHeapTuplesPerPage];
};

// A rate or a counter expires as a completed key does.
core::KeyFacts facts_of_row(KeySpace space, TupleDesc layout, HeapTuple row) {
    if (has_key_columns(space))
        return stored_facts(layout, row);
    static_assert(static_cast<int>(RateColumn::expires_at) == static_cast<int>(CounterColumn::expires_at));
    bool is_null;
    core::KeyFacts facts{};
    facts.state = core::State::completed;
    facts.expires_at = DatumGetTimestampTz(heap_getattr(row, RateColumn::expires_at, layout, &is_null));
    return facts;
}

// The scope that a deletion is counted for; nullptr for a counter.
const text *counted_scope(KeySpace space, TupleDesc layout, HeapTuple row) {
    if (space == KeySpace::counters)
        return nullptr;
    const int column = has_key_columns(space) ? int{KeyColumn::scope} : int{RateColumn::scope};
    bool is_null;
    return DatumGetTextPCopy(heap_getattr(row, column, layout, &is_null));
}

// Collects the rows that are expired, committed and not held, as far as this can be decided under the page's lock.
void collect(KeySpace space, Relation relation, Buffer buffer, OffsetNumber from, core::Micros now, Candidates *found) {
    TupleDesc layout = RelationGetDescr(relation);
    const CommandId command = GetCurrentCommandId(false);
    for_each_version(relation, buffer, from, [&](HeapTuple row) {
        const core::KeyFacts facts = facts_of_row(space, layout, row);
        if (!core::is_expired(facts, now))
            return;
        const TM_Result version = HeapTupleSatisfiesUpdate(row, command, buffer);
        if (version == TM_BeingModified)
            found->held++;
        if (version != TM_Ok)
            return;
        const text *scope = counted_scope(space, layout, row);
        const bool needs_policy = space == KeySpace::keys && facts.state == core::State::in_progress;
        found->rows[found->count++] = {ItemPointerGetOffsetNumber(&row->t_self), facts, scope, needs_policy, found->held};
    });
}

bool is_expired_by_policy(const Candidate &row, core::Micros now) {
    if (!row.needs_policy)
        return true;
    core::KeyFacts facts = row.facts;
    facts.manual_policy = is_manual_on_lease_expiry(row.scope);
    return core::is_expired(facts, now);
}

// REQUIRES: the page is pinned since it was read, so that the line pointer still belongs to that version.
bool delete_version(Relation relation, BlockNumber block, OffsetNumber offset) {
    ItemPointerData version;
    ItemPointerSet(&version, block, offset);
    return delete_row({relation, nullptr, {}, 0, false}, version, false) == Write::done;
}

// Sweeps one page from the position's row on, with at most `max_rows` deletions. It checks `until` before each deletion but the
// first, as the deletion of one row with a large response also deletes hundreds of TOAST rows. Advances the position.
void sweep_page(KeySpace space, Relation relation, HeapPosition *position, int64 max_rows, core::Micros until, Batch *batch,
                BufferAccessStrategy strategy) {
    const core::Micros now = clock_now();
    Buffer buffer = ReadBufferExtended(relation, MAIN_FORKNUM, position->block, RBM_NORMAL, strategy);
    heap_page_prune_opt(relation, buffer); // as any scan does
    Candidates found;
    found.count = 0;
    found.held = 0;
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    collect(space, relation, buffer, position->offset, now, &found);
    LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
    for (int i = 0; i < found.count; i++) {
        const Candidate &row = found.rows[i];
        CHECK_FOR_INTERRUPTS();
        if (max_rows == 0 || (i > 0 && monotonic_now() >= until)) {
            position->offset = row.offset;
            batch->held += row.held_before;
            ReleaseBuffer(buffer);
            return;
        }
        if (!is_expired_by_policy(row, now))
            continue;
        if (delete_version(relation, position->block, row.offset)) {
            batch->deleted++;
            max_rows--;
            if (row.scope != nullptr)
                stats::count(row.scope, stats::Counter::swept);
        } else {
            batch->held++;
        }
    }
    ReleaseBuffer(buffer);
    batch->held += found.held;
    batch->blocks++;
    *position = {position->block + 1, FirstOffsetNumber};
}

} // namespace

Batch sweep_blocks(KeySpace space, Relation relation, HeapPosition *position, BlockNumber end, const BatchLimits &limits,
                   BufferAccessStrategy strategy) {
    Batch batch{};
    do {
        if (position->block >= end)
            break;
        CHECK_FOR_INTERRUPTS();
        sweep_page(space, relation, position, limits.rows - batch.deleted, limits.until, &batch, strategy);
    } while (batch.deleted < limits.rows && monotonic_now() < limits.until);
    return batch;
}

} // namespace idem
