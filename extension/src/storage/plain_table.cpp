#include "storage/plain_table.hpp"

#include "server/compat.hpp"

namespace idem {

namespace {

// The executor's own way, for a table to which somebody added indexes.
void insert_all_index_entries(const PlainTable &table, HeapTuple tuple, bool only_summarizing) {
    EState *state = CreateExecutorState();
    ResultRelInfo *target = makeNode(ResultRelInfo);
    InitResultRelInfo(target, table.relation, 1, nullptr, 0);
    ExecOpenIndices(target, false);
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsHeapTuple);
    ExecStoreHeapTuple(tuple, slot, false);
    slot->tts_tid = tuple->t_self;
    slot->tts_tableOid = RelationGetRelid(table.relation);
    compat_insert_index_tuples(target, slot, state, false, nullptr, NIL, only_summarizing);
    ExecCloseIndices(target);
    ExecDropSingleTupleTableSlot(slot);
    FreeExecutorState(state);
}

void insert_index_entries(const PlainTable &table, HeapTuple tuple, bool unchanged, bool only_summarizing) {
    if (table.has_more_indexes)
        return insert_all_index_entries(table, tuple, only_summarizing);
    if (only_summarizing)
        return;
    Form_pg_index form = table.primary_key->rd_index;
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    for (int i = 0; i < form->indnkeyatts; i++)
        values[i] = heap_getattr(tuple, form->indkey.values[i], RelationGetDescr(table.relation), &nulls[i]);
    // A B-tree asks nothing of the IndexInfo.
    index_insert(table.primary_key, values, nulls, &tuple->t_self, table.relation, UNIQUE_CHECK_YES, unchanged, nullptr);
}

bool was_done(const PlainTable &table, TM_Result result) {
    if (result != TM_Ok && result != TM_Updated && result != TM_Deleted)
        elog(ERROR, "unexpected state %d of a row of \"%s\"", result, RelationGetRelationName(table.relation));
    return result == TM_Ok;
}

} // namespace

PlainTable open_plain(Member &member) {
    PlainTable table;
    table.relation = open_member_held(member, RowExclusiveLock);
    List *indexes = RelationGetIndexList(table.relation);
    table.has_more_indexes = list_length(indexes) > 1;
    list_free(indexes);
    table.primary_key = index_open(compat_primary_key(table.relation), RowExclusiveLock);
    return table;
}

void close_plain(const PlainTable &table) {
    index_close(table.primary_key, NoLock);
    RelationClose(table.relation);
}

void insert_row(const PlainTable &table, const Datum *values, const bool *nulls) {
    HeapTuple tuple = heap_form_tuple(RelationGetDescr(table.relation), const_cast<Datum *>(values), const_cast<bool *>(nulls));
    tuple->t_tableOid = RelationGetRelid(table.relation);
    heap_insert(table.relation, tuple, GetCurrentCommandId(true), 0, nullptr);
    insert_index_entries(table, tuple, false, false);
    heap_freetuple(tuple);
}

bool update_row(const PlainTable &table, HeapTuple version, const Datum *values, const bool *nulls, const bool *replaced) {
    HeapTuple tuple = heap_modify_tuple(version, RelationGetDescr(table.relation), const_cast<Datum *>(values),
                                        const_cast<bool *>(nulls), const_cast<bool *>(replaced));
    ItemPointerData old = version->t_self;
    TM_FailureData failure{};
    IndexNeeds needs;
    const TM_Result result = compat_heap_update(table.relation, &old, tuple, GetCurrentCommandId(true), &failure, &needs);
    if (result == TM_Ok && needs != IndexNeeds::none)
        insert_index_entries(table, tuple, true, needs == IndexNeeds::summarizing);
    heap_freetuple(tuple);
    return was_done(table, result);
}

bool delete_row(const PlainTable &table, const ItemPointerData &version) {
    ItemPointerData old = version;
    TM_FailureData failure{};
    return was_done(table, compat_heap_delete(table.relation, &old, GetCurrentCommandId(true), &failure));
}

bool lock_plain(const PlainTable &table, const ItemPointerData &version, LockWaitPolicy wait) {
    ItemPointerData locked = version;
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsBufferHeapTuple);
    TM_FailureData failure{};
    const TM_Result result = table_tuple_lock(table.relation, &locked, InvalidSnapshot, slot, GetCurrentCommandId(true),
                                              LockTupleExclusive, wait, 0, &failure);
    ExecDropSingleTupleTableSlot(slot);
    return result != TM_WouldBlock && was_done(table, result);
}

PlainScan begin_plain_scan(const PlainTable &table, Snapshot snapshot, ScanKey keys, int count) {
    PlainScan scan;
    scan.slot = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsBufferHeapTuple);
    scan.index = compat_index_beginscan(table.relation, table.primary_key, snapshot, count);
    index_rescan(scan.index, keys, count, nullptr, 0);
    return scan;
}

TupleTableSlot *next_row(const PlainScan &scan) {
    CHECK_FOR_INTERRUPTS();
    return index_getnext_slot(scan.index, ForwardScanDirection, scan.slot) ? scan.slot : nullptr;
}

void end_plain_scan(const PlainScan &scan) {
    index_endscan(scan.index);
    ExecDropSingleTupleTableSlot(scan.slot);
}

} // namespace idem
