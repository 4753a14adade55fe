#include "operations/sweep_heap.hpp"

#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/compat.hpp"
#include "statistics/stats.hpp"
#include "storage/key_store.hpp"
#include "storage/page_rows.hpp"

namespace idem {

namespace {

// What a row is due for.
enum class Due {
    nothing,
    deletion, // it is expired
    redaction // its response is
};

struct Candidate {
    OffsetNumber offset;
    Due due; // a key in progress, and a redaction: if its scope's policy says so
    core::KeyFacts facts;
    core::Micros completed_at; // of a redaction
    const text *scope;         // nullptr for a counter
    int held_before;           // rows before this one on the page that are due and that another transaction holds
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

Due due_for(const SweptTable &table, TupleDesc layout, HeapTuple row, const core::KeyFacts &facts, core::Micros now,
            core::Micros response_ttl) {
    if (core::is_expired(facts, now))
        return table.is_window ? Due::nothing : Due::deletion;
    const bool may_be_redacted =
        response_ttl != core::kForever && facts.state == core::State::completed && has_response(layout, row);
    return may_be_redacted && core::is_response_expired(facts, completion_time(layout, row), response_ttl, now) ? Due::redaction
                                                                                                                : Due::nothing;
}

// Collects the rows that are due, committed and not held, as far as this can be decided under the page's lock. `response_ttl`
// is the shortest of all scopes.
void collect(const SweptTable &table, Relation relation, Buffer buffer, OffsetNumber from, core::Micros now,
             core::Micros response_ttl, Candidates *found) {
    TupleDesc layout = RelationGetDescr(relation);
    const CommandId command = GetCurrentCommandId(false);
    for_each_version(relation, buffer, from, [&](HeapTuple row) {
        const core::KeyFacts facts = facts_of_row(table.space, layout, row);
        const Due due = due_for(table, layout, row, facts, now, response_ttl);
        if (due == Due::nothing)
            return;
        const TM_Result version = HeapTupleSatisfiesUpdate(row, command, buffer);
        if (version == TM_BeingModified)
            found->held++;
        if (version != TM_Ok)
            return;
        const text *scope = counted_scope(table.space, layout, row);
        const core::Micros completed_at = due == Due::redaction ? completion_time(layout, row) : 0;
        found->rows[found->count++] = {ItemPointerGetOffsetNumber(&row->t_self), due, facts, completed_at, scope, found->held};
    });
}

bool is_due_by_policy(KeySpace space, const Candidate &row, core::Micros now) {
    if (row.due == Due::redaction)
        return core::is_response_expired(row.facts, row.completed_at, response_ttl_of(row.scope), now);
    if (space != KeySpace::keys || row.facts.state != core::State::in_progress)
        return true;
    core::KeyFacts facts = row.facts;
    facts.manual_policy = is_manual_on_lease_expiry(row.scope);
    return core::is_expired(facts, now);
}

// REQUIRES: the page is pinned since it was read, so that the line pointer still belongs to that version.
bool delete_version(Relation relation, BlockNumber block, OffsetNumber offset) {
    ItemPointerData version;
    ItemPointerSet(&version, block, offset);
    return delete_row({relation, nullptr}, version, false) == Write::done;
}

// Removes the response of a version of a key. REQUIRES: as delete_version.
bool redact_version(Relation relation, BlockNumber block, OffsetNumber offset) {
    const KeyTable table = keys_in(relation);
    HeapTupleData stored{};
    ItemPointerSet(&stored.t_self, block, offset);
    Buffer buffer;
    bool done = false;
    if (heap_fetch(relation, SnapshotAny, &stored, &buffer, false)) {
        KeyRow row;
        heap_deform_tuple(&stored, RelationGetDescr(relation), row.values, row.nulls);
        remove_response(&row);
        KeyVersion version = {stored.t_self, 0};
        done = replace_key(table, &version, row, false) == Write::done;
        ReleaseBuffer(buffer);
    }
    close_index(table.primary_key);
    return done;
}

// False: another transaction holds the row.
bool sweep_row(Relation relation, BlockNumber block, const Candidate &row, Batch *batch) {
    if (row.due == Due::redaction) {
        if (!redact_version(relation, block, row.offset))
            return false;
        batch->redacted++;
        return true;
    }
    if (!delete_version(relation, block, row.offset))
        return false;
    batch->deleted++;
    if (row.scope != nullptr)
        stats::count(row.scope, stats::Counter::swept);
    return true;
}

// Sweeps one page from the position's row on, with at most `max_rows` changes. It checks `until` before each change but the
// first, as the deletion of one large response also deletes hundreds of TOAST rows. Advances the position.
void sweep_page(const SweptTable &table, Relation relation, HeapPosition *position, int64 max_rows, core::Micros until,
                core::Micros response_ttl, Batch *batch, BufferAccessStrategy strategy) {
    const core::Micros now = clock_now();
    Buffer buffer = ReadBufferExtended(relation, MAIN_FORKNUM, position->block, RBM_NORMAL, strategy);
    compat_heap_page_prune_opt(relation, buffer); // as any scan does
    Candidates found;
    found.count = 0;
    found.held = 0;
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    collect(table, relation, buffer, position->offset, now, response_ttl, &found);
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
        if (!is_due_by_policy(table.space, row, now))
            continue;
        if (sweep_row(relation, position->block, row, batch))
            max_rows--;
        else
            batch->held++;
    }
    ReleaseBuffer(buffer);
    batch->held += found.held;
    batch->blocks++;
    *position = {position->block + 1, FirstOffsetNumber};
}

} // namespace

Batch sweep_blocks(const SweptTable &table, Relation relation, HeapPosition *position, BlockNumber end,
                   const BatchLimits &limits, BufferAccessStrategy strategy) {
    Batch batch{};
    const core::Micros response_ttl = table.space == KeySpace::keys ? shortest_response_ttl() : core::kForever;
    do {
        if (position->block >= end)
            break;
        CHECK_FOR_INTERRUPTS();
        sweep_page(table, relation, position, limits.rows - batch.changed(), limits.until, response_ttl, &batch, strategy);
    } while (batch.changed() < limits.rows && monotonic_now() < limits.until);
    return batch;
}

} // namespace idem
