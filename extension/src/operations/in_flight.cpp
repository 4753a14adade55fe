// idem_in_flight: who is doing the work of which key. Looks at every row version of the table of keys, uncommitted ones
// included, and writes nothing.
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"
#include "storage/key_store.hpp"
#include "storage/page_rows.hpp"

namespace {

using namespace idem;
using core::State;

struct InFlightColumn {
    enum { scope, key, mode, pid, since, lease_until, count };
};
constexpr Oid kTypes[] = {TEXTOID, TEXTOID, TEXTOID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID};
static_assert(lengthof(kTypes) == InFlightColumn::count);

// A row version that may be in flight. It was copied, as nothing but a copy can be made while its page is locked.
struct Candidate {
    HeapTuple row;
    TransactionId holder; // invalid: the row has committed, and nobody is changing it
};

// Whether the transaction that inserted the version, and has not ended, has put another in its place. REQUIRES: the page's
// lock.
bool is_replaced(HeapTuple version) {
    HeapTupleHeader header = version->t_data;
    return !(header->t_infomask & HEAP_XMAX_INVALID) && !HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask) &&
           !ItemPointerEquals(&header->t_ctid, &version->t_self) &&
           TransactionIdIsInProgress(HeapTupleHeaderGetUpdateXid(header));
}

// Of what a transaction does to a key, the last version counts: what it replaced on the way, or will have replaced when it
// commits, is not shown beside it. False: not in flight. REQUIRES: the page's lock.
bool find_holder(HeapTuple version, Buffer buffer, SnapshotData *dirty, TransactionId *holder) {
    // A standby cannot tell what is in progress: there, what the snapshot sees counts.
    if (RecoveryInProgress())
        return HeapTupleSatisfiesVisibility(version, GetActiveSnapshot(), buffer);
    // Who is still in the act of inserting may yet find that somebody else has the key.
    if (!HeapTupleSatisfiesVisibility(version, dirty, buffer) || dirty->speculativeToken != 0)
        return false;
    const TransactionId inserter = HeapTupleHeaderGetXmin(version->t_data);
    if (TransactionIdIsValid(dirty->xmin)) {
        *holder = dirty->xmin;
        return !is_replaced(version);
    }
    if (TransactionIdIsCurrentTransactionId(inserter)) {
        *holder = inserter;
        return true;
    }
    *holder = dirty->xmax;
    const bool is_deleted = ItemPointerEquals(&version->t_data->t_ctid, &version->t_self);
    return !TransactionIdIsValid(dirty->xmax) || is_deleted;
}

struct Collector {
    TupleDesc layout;
    SnapshotData dirty;
    Candidate candidates[MaxHeapTuplesPerPage];
    int count;
};

void collect(Collector *found, HeapTuple version, Buffer buffer, bool all_visible) {
    bool is_null;
    const auto state = static_cast<State>(DatumGetChar(heap_getattr(version, KeyColumn::state, found->layout, &is_null)));
    const bool is_open = state == State::in_progress || state == State::in_doubt;
    TransactionId holder = InvalidTransactionId;
    if (!is_open && all_visible)
        return;
    if (!all_visible && !find_holder(version, buffer, &found->dirty, &holder))
        return;
    if (is_open || TransactionIdIsValid(holder))
        found->candidates[found->count++] = {heap_copytuple(version), holder};
}

// The process that runs the transaction; 0 when it is prepared. False: it has ended meanwhile.
bool find_process(TransactionId holder, int *process) {
    if (TransactionIdIsCurrentTransactionId(holder)) {
        *process = MyProcPid;
        return true;
    }
    const TransactionId transaction = SubTransGetTopmostTransaction(holder);
    *process = BackendXidGetPid(transaction);
    return *process != 0 || TransactionIdIsInProgress(transaction);
}

void put_row(const AnswerRows &result, const KeyRow &row, int process) {
    Datum values[InFlightColumn::count];
    bool nulls[InFlightColumn::count] = {};
    // Not by reference to what a rollback may take away.
    values[InFlightColumn::scope] = PointerGetDatum(DatumGetTextPP(row.get(KeyColumn::scope)));
    values[InFlightColumn::key] = PointerGetDatum(DatumGetTextPP(row.get(KeyColumn::key)));
    values[InFlightColumn::mode] = CStringGetTextDatum(row.is_null(KeyColumn::fence) ? "transactional" : "leased");
    values[InFlightColumn::pid] = Int32GetDatum(process);
    nulls[InFlightColumn::pid] = process == 0;
    values[InFlightColumn::since] = row.get(KeyColumn::created_at);
    values[InFlightColumn::lease_until] = row.get(KeyColumn::lease_until);
    nulls[InFlightColumn::lease_until] = row.is_null(KeyColumn::lease_until);
    put_answer_row(result, values, nulls);
}

void show(const AnswerRows &result, const Candidate &candidate, TupleDesc layout) {
    KeyRow row;
    heap_deform_tuple(candidate.row, layout, row.values, row.nulls);
    ScopePolicy policy;
    if (!find_usable_scope(DatumGetTextPP(row.get(KeyColumn::scope)), &policy))
        return;
    int process = 0;
    if (TransactionIdIsValid(candidate.holder) && find_process(candidate.holder, &process))
        return put_row(result, row, process);
    // Committed, or so the end of its transaction made it.
    const State state = state_of(row);
    if (TransactionIdIsValid(candidate.holder) &&
        (HeapTupleHeaderGetXmin(candidate.row->t_data) != candidate.holder || !TransactionIdDidCommit(candidate.holder)))
        return;
    if ((state == State::in_progress || state == State::in_doubt) &&
        !core::is_expired(facts_of(row, false, policy.manual_on_lease_expiry), clock_now()))
        put_row(result, row, 0);
}

// One page at a time, locked as any reader locks it.
void collect_page(Collector *found, Relation table, BlockNumber block, BufferAccessStrategy ring) {
    CHECK_FOR_INTERRUPTS();
    found->count = 0;
    Buffer buffer = ReadBufferExtended(table, MAIN_FORKNUM, block, RBM_NORMAL, ring);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    // A page that the primary found visible to all may be too new for a standby's snapshot.
    const bool all_visible = PageIsAllVisible(BufferGetPage(buffer)) && !RecoveryInProgress();
    for_each_version(table, buffer, FirstOffsetNumber,
                     [&](HeapTuple version) { collect(found, version, buffer, all_visible); });
    UnlockReleaseBuffer(buffer);
}

// This is no snapshot: a row that moves meanwhile may be met twice, or not at all.
void show_all(const AnswerRows &result) {
    Relation table = open_member(table_of(KeySpace::keys), AccessShareLock);
    Collector found;
    found.layout = RelationGetDescr(table);
    InitDirtySnapshot(found.dirty);
    // A small ring of buffers, so that the walk does not push the pages of others out of memory.
    BufferAccessStrategy ring = GetAccessStrategy(BAS_BULKREAD);
    const MemoryContext page_memory = AllocSetContextCreate(CurrentMemoryContext, "idem_in_flight", ALLOCSET_DEFAULT_SIZES);
    const MemoryContext outer = MemoryContextSwitchTo(page_memory);
    BlockNumber blocks = 0;
    // Keys claimed meanwhile are on pages that were added: at the end, the size is asked for again.
    for (BlockNumber block = 0; block < blocks || block < (blocks = RelationGetNumberOfBlocks(table)); block++) {
        collect_page(&found, table, block, ring);
        for (int i = 0; i < found.count; i++)
            show(result, found.candidates[i], found.layout);
        if (found.count > 0)
            MemoryContextReset(page_memory);
    }
    MemoryContextSwitchTo(outer);
    FreeAccessStrategy(ring);
    MemoryContextDelete(page_memory);
    table_close(table, NoLock);
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_in_flight);

PGDLLEXPORT Datum idem_in_flight(PG_FUNCTION_ARGS) {
    show_all(begin_answer_rows(fcinfo, kTypes));
    return Datum{0};
}

} // extern "C"
