// idem_in_flight: the keys whose work is in progress, and the processes that do it. Reads every row version of idem_keys,
// including uncommitted ones, and writes nothing.
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"
#include "storage/key_record.hpp"
#include "storage/page_rows.hpp"
#include "storage/ring.hpp"

namespace {

using namespace idem;
using core::State;

struct InFlightColumn {
    enum { scope, key, mode, pid, since, lease_until, count };
};
constexpr Oid kTypes[] = {TEXTOID, TEXTOID, TEXTOID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID};
static_assert(lengthof(kTypes) == InFlightColumn::count);

// A row version that may be in flight. It is a copy, because the rest of the work cannot be done under the page's lock.
struct Candidate {
    HeapTuple row;
    TransactionId holder; // invalid: the row has committed, and no transaction is changing it
};

// Whether the open transaction that inserted the version has replaced it. REQUIRES: the page's lock.
bool is_replaced(HeapTuple version) {
    HeapTupleHeader header = version->t_data;
    return !(header->t_infomask & HEAP_XMAX_INVALID) && !HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask) &&
           !ItemPointerEquals(&header->t_ctid, &version->t_self) &&
           TransactionIdIsInProgress(HeapTupleHeaderGetUpdateXid(header));
}

// The open transaction that wrote the version or is changing it. Only the last version that a transaction writes of a key
// counts; the versions that it has replaced, or replaces at its commit, are not in flight. False: not in flight. REQUIRES: the
// page's lock.
bool find_holder(HeapTuple version, Buffer buffer, SnapshotData *dirty, TransactionId *holder) {
    // A standby cannot tell which transactions are in progress. Only the snapshot counts there.
    if (RecoveryInProgress())
        return HeapTupleSatisfiesVisibility(version, GetActiveSnapshot(), buffer);
    // A speculative insertion may still find that another transaction has the key.
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

void collect(Collector *collector, HeapTuple version, Buffer buffer, bool all_visible) {
    bool is_null;
    const auto state = static_cast<State>(DatumGetChar(heap_getattr(version, KeyColumn::state, collector->layout, &is_null)));
    const bool is_open = state == State::in_progress || state == State::in_doubt;
    TransactionId holder = InvalidTransactionId;
    if (!is_open && all_visible)
        return;
    if (!all_visible && !find_holder(version, buffer, &collector->dirty, &holder))
        return;
    if (is_open || TransactionIdIsValid(holder))
        collector->candidates[collector->count++] = {heap_copytuple(version), holder};
}

// The process that runs the transaction, or 0 if it is prepared. False: the transaction has ended.
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
    // Detoasted, because a rollback may remove the toasted value.
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

void put_if_in_flight(const AnswerRows &result, const Candidate &candidate, TupleDesc layout) {
    KeyRow row;
    heap_deform_tuple(candidate.row, layout, row.values, row.nulls);
    ScopePolicy policy;
    if (!find_usable_scope(DatumGetTextPP(row.get(KeyColumn::scope)), &policy))
        return;
    int process = 0;
    if (TransactionIdIsValid(candidate.holder) && find_process(candidate.holder, &process))
        return put_row(result, row, process);
    // The transaction has ended, or there was none: only a committed version counts.
    const State state = state_of(row);
    if (TransactionIdIsValid(candidate.holder) &&
        (HeapTupleHeaderGetXmin(candidate.row->t_data) != candidate.holder || !TransactionIdDidCommit(candidate.holder)))
        return;
    if ((state == State::in_progress || state == State::in_doubt) &&
        !core::is_expired(facts_of(row, false, policy.manual_on_lease_expiry), clock_now()))
        put_row(result, row, 0);
}

void collect_page(Collector *collector, Relation table, BlockNumber block, BufferAccessStrategy strategy) {
    CHECK_FOR_INTERRUPTS();
    collector->count = 0;
    Buffer buffer = ReadBufferExtended(table, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    // A page that is visible to all on the primary may be too new for a standby's snapshot.
    const bool all_visible = PageIsAllVisible(BufferGetPage(buffer)) && !RecoveryInProgress();
    for_each_version(table, buffer, FirstOffsetNumber,
                     [&](HeapTuple version) { collect(collector, version, buffer, all_visible); });
    UnlockReleaseBuffer(buffer);
}

void put_in_flight(const AnswerRows &result, Relation table) {
    Collector collector;
    collector.layout = RelationGetDescr(table);
    InitDirtySnapshot(collector.dirty);
    // A small ring of buffers, so that other pages stay in memory.
    BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
    const MemoryContext page_memory = AllocSetContextCreate(CurrentMemoryContext, "idem_in_flight", ALLOCSET_DEFAULT_SIZES);
    const MemoryContext outer = MemoryContextSwitchTo(page_memory);
    BlockNumber blocks = 0;
    // Keys that are claimed during the scan may be on added pages, so the size is read again at the end.
    for (BlockNumber block = 0; block < blocks || block < (blocks = RelationGetNumberOfBlocks(table)); block++) {
        collect_page(&collector, table, block, strategy);
        for (int i = 0; i < collector.count; i++)
            put_if_in_flight(result, collector.candidates[i], collector.layout);
        if (collector.count > 0)
            MemoryContextReset(page_memory);
    }
    MemoryContextSwitchTo(outer);
    FreeAccessStrategy(strategy);
    MemoryContextDelete(page_memory);
}

void put_in_flight(const AnswerRows &result, Member &member) {
    Relation table = open_member(member, AccessShareLock);
    put_in_flight(result, table);
    table_close(table, NoLock);
}

// The result is not a snapshot: a row that moves during the scan may be returned twice or not at all.
void put_all_in_flight(const AnswerRows &result) {
    put_in_flight(result, table_of(KeySpace::keys));
    for_each_searched_window([&](RingWindow &window) { put_in_flight(result, window.table); });
}

} // namespace

SQL_FUNCTION(idem_in_flight) {
    put_all_in_flight(begin_answer_rows(fcinfo, kTypes));
    return Datum{0};
}
