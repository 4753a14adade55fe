#include "storage/heap_table.hpp"

#include "server/compat.hpp"

namespace idem {

namespace {

bool is_plain(Relation index) {
    Form_pg_index form = index->rd_index;
    bool plain = index->rd_rel->relam == BTREE_AM_OID && form->indisvalid && form->indisready && !form->indisexclusion &&
                 RelationGetIndexPredicate(index) == NIL;
    for (int i = 0; plain && i < form->indnatts; i++)
        plain = form->indkey.values[i] != InvalidAttrNumber; // no expression
    return plain;
}

// Locks the index only where the table's lock does not protect it (HeapTable).
Relation open_index(Oid oid, LOCKMODE table_lock) {
    if (table_lock < RowExclusiveLock || RecoveryInProgress())
        return index_open(oid, AccessShareLock);
    return open_locked_relation(oid);
}

HeapTable with_primary_key(Relation relation, LOCKMODE lock) {
    const Oid primary_key = compat_primary_key(relation);
    return {relation, OidIsValid(primary_key) ? open_index(primary_key, lock) : nullptr};
}

// All indexes of a table, locked to make entries in them.
struct EntryTargets {
    Relation indexes[4];
    int count;
    bool has_others; // more indexes, or other than B-trees of plain columns: the executor makes all entries, which is slower
};

EntryTargets open_entry_targets(const HeapTable &table) {
    EntryTargets targets{};
    List *indexes = RelationGetIndexList(table.relation);
    targets.has_others = list_length(indexes) > static_cast<int>(lengthof(targets.indexes));
    ListCell *cell;
    foreach (cell, indexes) {
        if (targets.has_others)
            break;
        Relation index = index_open(lfirst_oid(cell), RowExclusiveLock);
        targets.indexes[targets.count++] = index;
        targets.has_others = !is_plain(index);
    }
    list_free(indexes);
    return targets;
}

void close_entry_targets(const EntryTargets &targets) {
    for (int i = 0; i < targets.count; i++)
        index_close(targets.indexes[i], NoLock);
}

bool has_same_columns(Form_pg_index index, Form_pg_index primary_key) {
    return index->indnkeyatts == primary_key->indnkeyatts &&
           memcmp(index->indkey.values, primary_key->indkey.values, sizeof(AttrNumber) * index->indnkeyatts) == 0;
}

// The indexes whose conflict means that the row is not new: the primary key, and its copy during REINDEX CONCURRENTLY.
List *arbiters_among(const ResultRelInfo *target, const HeapTable &table) {
    List *arbiters = NIL;
    for (int i = 0; i < target->ri_NumIndices; i++) {
        Form_pg_index form = target->ri_IndexRelationDescs[i]->rd_index;
        if (form->indisunique && has_same_columns(form, table.primary_key->rd_index))
            arbiters = lappend_oid(arbiters, form->indexrelid);
    }
    return arbiters;
}

// Makes the index entries by the executor, for indexes of any kind.
bool insert_all_index_entries(const HeapTable &table, HeapTuple row, IndexUniqueCheck check, bool only_summarizing) {
    const bool speculative = check == UNIQUE_CHECK_PARTIAL;
    EState *state = CreateExecutorState();
    ResultRelInfo *target = makeNode(ResultRelInfo);
    InitResultRelInfo(target, table.relation, 1, nullptr, 0);
    ExecOpenIndices(target, speculative);
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsHeapTuple);
    ExecStoreHeapTuple(row, slot, false);
    slot->tts_tid = row->t_self;
    slot->tts_tableOid = RelationGetRelid(table.relation);
    bool conflict = false;
    compat_insert_index_tuples(target, slot, state, speculative, &conflict, speculative ? arbiters_among(target, table) : NIL,
                               only_summarizing);
    ExecCloseIndices(target);
    ExecDropSingleTupleTableSlot(slot);
    FreeExecutorState(state);
    return !conflict;
}

// `check` applies to the primary key and its copy. A conflict in any other unique index raises an error.
IndexUniqueCheck check_of(const HeapTable &table, Relation index, IndexUniqueCheck check) {
    if (!index->rd_index->indisunique)
        return UNIQUE_CHECK_NO;
    return has_same_columns(index->rd_index, table.primary_key->rd_index) ? check : UNIQUE_CHECK_YES;
}

// Makes the index entries of a new version. Returns false when a UNIQUE_CHECK_PARTIAL found a conflict. `has_old_key`: the
// version replaces one with the same key, which lets a B-tree remove old versions before it splits a page.
bool insert_index_entries(const HeapTable &table, const EntryTargets &targets, HeapTuple row, IndexUniqueCheck check,
                          bool has_old_key = false, IndexNeeds needs = IndexNeeds::all) {
    if (targets.has_others)
        return insert_all_index_entries(table, row, check, needs == IndexNeeds::summarizing);
    if (needs == IndexNeeds::summarizing)
        return true;
    Datum values[INDEX_MAX_KEYS];
    bool nulls[INDEX_MAX_KEYS];
    bool is_new = true;
    for (int i = 0; is_new && i < targets.count; i++) {
        Relation index = targets.indexes[i];
        Form_pg_index form = index->rd_index;
        for (int n = 0; n < form->indnatts; n++)
            values[n] = heap_getattr(row, form->indkey.values[n], RelationGetDescr(table.relation), &nulls[n]);
        const IndexUniqueCheck own_check = check_of(table, index, check);
        // A B-tree does not use the IndexInfo, and returns false without a unique check.
        const bool inserted = index_insert(index, values, nulls, &row->t_self, table.relation, own_check, has_old_key, nullptr);
        is_new = inserted || own_check == UNIQUE_CHECK_NO;
    }
    return is_new;
}

Write write_result(const HeapTable &table, TM_Result result) {
    switch (result) {
    case TM_Ok:
        return Write::done;
    case TM_Updated:
    case TM_Deleted:
        // Under a transaction snapshot, the caller reads the later version and raises 40001.
        return Write::changed;
    case TM_BeingModified:
    case TM_WouldBlock:
        return Write::busy;
    default:
        elog(ERROR, "unexpected state %d of a row of \"%s\"", result, RelationGetRelationName(table.relation));
    }
    pg_unreachable();
}

} // namespace

HeapTable open_heap(Member &member, LOCKMODE lock) { return with_primary_key(open_member(member, lock), lock); }

HeapTable open_heap_held(Member &member, LOCKMODE lock) { return with_primary_key(open_member_held(member, lock), lock); }

HeapTable heap_of_window(Relation window) { return with_primary_key(window, RowExclusiveLock); }

void close_heap(const HeapTable &table) {
    if (table.primary_key != nullptr)
        close_index(table.primary_key);
    table_close(table.relation, NoLock);
}

Relation open_index_on(const HeapTable &table, AttrNumber column) {
    List *indexes = RelationGetIndexList(table.relation);
    Relation found = nullptr;
    ListCell *cell;
    foreach (cell, indexes) {
        Relation index = open_index(lfirst_oid(cell), RowExclusiveLock);
        if (found == nullptr && is_plain(index) && index->rd_index->indkey.values[0] == column)
            found = index;
        else
            close_index(index);
    }
    list_free(indexes);
    return found;
}

void lock_index(Relation index) { LockRelationOid(RelationGetRelid(index), AccessShareLock); }

void close_index(Relation index) { index_close(index, NoLock); }

HeapTuple form_row(const HeapTable &table, const Datum *values, const bool *nulls) {
    HeapTuple row = heap_form_tuple(RelationGetDescr(table.relation), const_cast<Datum *>(values), const_cast<bool *>(nulls));
    row->t_tableOid = RelationGetRelid(table.relation);
    return row;
}

void insert_row(const HeapTable &table, HeapTuple row) {
    const EntryTargets targets = open_entry_targets(table);
    heap_insert(table.relation, row, GetCurrentCommandId(true), 0, nullptr);
    (void)insert_index_entries(table, targets, row, UNIQUE_CHECK_YES);
    close_entry_targets(targets);
}

void insert_row(const HeapTable &table, const Datum *values, const bool *nulls) {
    HeapTuple row = form_row(table, values, nulls);
    insert_row(table, row);
    heap_freetuple(row);
}

struct RowBatch {
    static constexpr int kMaxRows = 1000;
    HeapTable table;
    EntryTargets targets;
    TupleTableSlot *slots[kMaxRows]; // what heap_multi_insert takes rows in
    int count;
};

RowBatch *open_row_batch(const HeapTable &table, int most_rows) {
    auto *batch = static_cast<RowBatch *>(palloc(sizeof(RowBatch)));
    batch->table = table;
    batch->targets = open_entry_targets(table);
    // A copy of the descriptor, because each slot would register a reference to the relation's own.
    TupleDesc layout = CreateTupleDescCopy(RelationGetDescr(table.relation));
    batch->count = Min(most_rows, RowBatch::kMaxRows);
    for (int i = 0; i < batch->count; i++)
        batch->slots[i] = MakeSingleTupleTableSlot(layout, &TTSOpsHeapTuple);
    return batch;
}

void close_row_batch(RowBatch *batch) {
    for (int i = 0; i < batch->count; i++)
        ExecDropSingleTupleTableSlot(batch->slots[i]);
    close_entry_targets(batch->targets);
    pfree(batch);
}

namespace {

// Inserts the rows without index entries. Sets their positions.
void multi_insert(RowBatch *batch, HeapTuple *rows, int count) {
    // A slot that owns its row is not copied by heap_multi_insert. The row is the caller's again afterwards.
    for (int i = 0; i < count; i++)
        ExecStoreHeapTuple(rows[i], batch->slots[i], true);
    heap_multi_insert(batch->table.relation, batch->slots, count, GetCurrentCommandId(true), 0, nullptr);
    for (int i = 0; i < count; i++) {
        rows[i]->t_self = batch->slots[i]->tts_tid;
        batch->slots[i]->tts_flags &= ~TTS_FLAG_SHOULDFREE;
        ExecClearTuple(batch->slots[i]);
    }
}

} // namespace

void insert_rows(const HeapTable &table, HeapTuple *rows, int count) {
    if (count == 1)
        return insert_row(table, rows[0]);
    RowBatch *batch = open_row_batch(table, count);
    for (int done = 0; done < count; done += batch->count) {
        const int size = Min(count - done, batch->count);
        CHECK_FOR_INTERRUPTS();
        multi_insert(batch, rows + done, size);
        for (int i = 0; i < size; i++)
            (void)insert_index_entries(table, batch->targets, rows[done + i], UNIQUE_CHECK_YES);
    }
    close_row_batch(batch);
}

bool insert_row_if_new(const HeapTable &table, HeapTuple row) {
    const EntryTargets targets = open_entry_targets(table);
    const TransactionId self = GetCurrentTransactionId();
    const CommandId command = GetCurrentCommandId(true);
    // Until the index entries are made, transactions that find the row wait for this token and not for this transaction.
    const uint32 token = SpeculativeInsertionLockAcquire(self);
    HeapTupleHeaderSetSpeculativeToken(row->t_data, token);
    heap_insert(table.relation, row, command, HEAP_INSERT_SPECULATIVE, nullptr);
    const bool is_new = insert_index_entries(table, targets, row, UNIQUE_CHECK_PARTIAL);
    if (is_new)
        heap_finish_speculative(table.relation, &row->t_self);
    else
        heap_abort_speculative(table.relation, &row->t_self);
    SpeculativeInsertionLockRelease(self);
    close_entry_targets(targets);
    return is_new;
}

bool insert_rows_if_new(RowBatch *batch, HeapTuple *rows, int count) {
    Assert(count <= batch->count);
    multi_insert(batch, rows, count);
    bool all_new = true;
    for (int i = 0; all_new && i < count; i++)
        all_new = insert_index_entries(batch->table, batch->targets, rows[i], UNIQUE_CHECK_PARTIAL);
    return all_new;
}

Write update_row(const HeapTable &table, const ItemPointerData &version, HeapTuple row) {
    ItemPointerData old = version;
    TM_FailureData failure{};
    IndexNeeds needs;
    const TM_Result result = compat_heap_update(table.relation, &old, row, GetCurrentCommandId(true), &failure, &needs);
    if (result == TM_Ok && needs != IndexNeeds::none) {
        const EntryTargets targets = open_entry_targets(table);
        (void)insert_index_entries(table, targets, row, UNIQUE_CHECK_YES, true, needs);
        close_entry_targets(targets);
    }
    return write_result(table, result);
}

Write delete_row(const HeapTable &table, const ItemPointerData &version, bool wait) {
    ItemPointerData old = version;
    TM_FailureData failure{};
    return write_result(table, compat_heap_delete(table.relation, &old, GetCurrentCommandId(true), &failure, wait));
}

Write lock_row(const HeapTable &table, ItemPointer version, LockTupleMode mode, LockWaitPolicy wait) {
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsBufferHeapTuple);
    TM_FailureData failure{};
    const uint8 flags = mode == LockTupleKeyShare ? TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS : 0;
    const TM_Result result = table_tuple_lock(table.relation, version, InvalidSnapshot, slot, GetCurrentCommandId(true), mode,
                                              wait, flags, &failure);
    ExecDropSingleTupleTableSlot(slot);
    return write_result(table, result);
}

IndexedRows begin_indexed_rows(const HeapTable &table, Relation index, Snapshot snapshot, ScanKey keys, int count) {
    lock_index(index);
    IndexedRows rows;
    rows.slot = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsBufferHeapTuple);
    rows.scan = compat_index_beginscan(table.relation, index, snapshot, count);
    index_rescan(rows.scan, keys, count, nullptr, 0);
    return rows;
}

TupleTableSlot *next_row(const IndexedRows &rows) {
    CHECK_FOR_INTERRUPTS();
    return index_getnext_slot(rows.scan, ForwardScanDirection, rows.slot) ? rows.slot : nullptr;
}

void end_indexed_rows(const IndexedRows &rows) {
    index_endscan(rows.scan);
    ExecDropSingleTupleTableSlot(rows.slot);
}

} // namespace idem
