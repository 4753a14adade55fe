// The differences between PostgreSQL 15 and 18. This is the only file that reads PG_VERSION_NUM. Each entry gives older servers
// the newest server's interface, and its comment says which version changed what.
#pragma once

#include "server/pg.hpp"

// 18 added a library's name and version, which pg_get_loaded_modules() shows.
#if PG_VERSION_NUM < 180000
#define PG_MODULE_MAGIC_EXT(...) PG_MODULE_MAGIC
#endif

namespace idem {

enum class IndexNeeds { none, all, summarizing };

// 16 added an out-parameter that tells which indexes need entries for the new version. Before 16, all indexes need entries
// unless the new version is heap-only.
inline TM_Result compat_heap_update(Relation relation, ItemPointer tid, HeapTuple tuple, CommandId cid, TM_FailureData *failure,
                                    IndexNeeds *needs) {
    LockTupleMode lock_mode;
#if PG_VERSION_NUM >= 160000
    TU_UpdateIndexes indexes = TU_None;
    TM_Result result = heap_update(relation, tid, tuple, cid, InvalidSnapshot, true, failure, &lock_mode, &indexes);
    *needs = indexes == TU_None ? IndexNeeds::none : indexes == TU_All ? IndexNeeds::all : IndexNeeds::summarizing;
#else
    TM_Result result = heap_update(relation, tid, tuple, cid, InvalidSnapshot, true, failure, &lock_mode);
    *needs = result == TM_Ok && !HeapTupleIsHeapOnly(tuple) ? IndexNeeds::all : IndexNeeds::none;
#endif
    return result;
}

inline TM_Result compat_heap_delete(Relation relation, ItemPointer tid, CommandId cid, TM_FailureData *failure,
                                    bool wait = true) {
    return heap_delete(relation, tid, cid, InvalidSnapshot, wait, failure, false);
}

// 16 added the last argument, for indexes that only summarize blocks.
inline void compat_insert_index_tuples(ResultRelInfo *target, TupleTableSlot *slot, EState *state, bool speculative,
                                       bool *conflict, List *arbiters, [[maybe_unused]] bool only_summarizing) {
#if PG_VERSION_NUM >= 160000
    ExecInsertIndexTuples(target, slot, state, false, speculative, conflict, arbiters, only_summarizing);
#else
    ExecInsertIndexTuples(target, slot, state, false, speculative, conflict, arbiters);
#endif
}

// 18 added an instrumentation argument.
inline IndexScanDesc compat_index_beginscan(Relation table, Relation index, Snapshot snapshot, int nkeys) {
#if PG_VERSION_NUM >= 180000
    return index_beginscan(table, index, snapshot, nullptr, nkeys, 0);
#else
    return index_beginscan(table, index, snapshot, nkeys, 0);
#endif
}

// 16 added the heap relation, and 17 dropped the snapshot.
inline BTStack compat_bt_search([[maybe_unused]] Relation table, Relation index, BTScanInsert key, Buffer *leaf) {
#if PG_VERSION_NUM >= 170000
    return _bt_search(index, table, key, leaf, BT_READ);
#elif PG_VERSION_NUM >= 160000
    return _bt_search(index, table, key, leaf, BT_READ, nullptr);
#else
    return _bt_search(index, key, leaf, BT_READ, nullptr);
#endif
}

// The root, locked for reading, or InvalidBuffer. 16 added the heap relation.
inline Buffer compat_bt_getroot([[maybe_unused]] Relation table, Relation index) {
#if PG_VERSION_NUM >= 160000
    return _bt_getroot(index, table, BT_READ);
#else
    return _bt_getroot(index, BT_READ);
#endif
}

// 17 removed the flag for a search for a page to delete, and added one for a backward scan. A search for a key's first entry
// sets neither.
inline void compat_search_forward(BTScanInsert key) {
#if PG_VERSION_NUM >= 170000
    key->backward = false;
#else
    key->pivotsearch = false;
#endif
}

// Whether a rollback of the current transaction would give the relation another file. 16 renamed the field.
inline bool compat_has_new_file(Relation relation) {
#if PG_VERSION_NUM >= 160000
    return relation->rd_createSubid != InvalidSubTransactionId ||
           relation->rd_firstRelfilelocatorSubid != InvalidSubTransactionId;
#else
    return relation->rd_createSubid != InvalidSubTransactionId || relation->rd_firstRelfilenodeSubid != InvalidSubTransactionId;
#endif
}

// 17 moved the id into a struct.
inline LocalTransactionId compat_local_transaction() {
#if PG_VERSION_NUM >= 170000
    return MyProc->vxid.lxid;
#else
    return MyProc->lxid;
#endif
}

// A small number, unique among the running processes. 17 moved it to a global variable.
inline int compat_process_number() {
#if PG_VERSION_NUM >= 170000
    return MyProcNumber;
#else
    return MyProc->pgprocno;
#endif
}

// nullptr when the process has ended. 17 merged the numbers of backends and processes.
inline PGPROC *compat_process_of(const VirtualTransactionId &transaction) {
#if PG_VERSION_NUM >= 170000
    return ProcNumberGetProc(transaction.procNumber);
#else
    return BackendIdGetProc(transaction.backendId);
#endif
}

// 17 added infinite intervals.
inline bool compat_interval_is_finite([[maybe_unused]] const Interval *interval) {
#if PG_VERSION_NUM >= 170000
    return !INTERVAL_NOT_FINITE(interval);
#else
    return true;
#endif
}

// 18 added an argument: whether a deferrable primary key counts. It never did before.
inline Oid compat_primary_key(Relation table) {
#if PG_VERSION_NUM >= 180000
    return RelationGetPrimaryKeyIndex(table, false);
#else
    return RelationGetPrimaryKeyIndex(table);
#endif
}

// Raises 42501 if a privilege is missing, as the executor does at its start. 16 moved the privileges that a statement needs out
// of its range table.
inline void compat_check_permissions(const PlannedStmt *statement) {
#if PG_VERSION_NUM >= 160000
    (void)ExecCheckPermissions(statement->rtable, statement->permInfos, true);
#else
    (void)ExecCheckRTPerms(statement->rtable, true);
#endif
}

// 17 renamed the function.
inline bool compat_search_path_matches(const CachedPlanSource *source) {
#if PG_VERSION_NUM >= 170000
    return SearchPathMatchesCurrentEnvironment(source->search_path);
#else
    return OverrideSearchPathMatchesCurrent(source->search_path);
#endif
}

// Returns the size, or -1 when `out` is too small. 18 changed the type of the bytes.
inline int compat_b64_encode(const uint8 *bytes, int size, char *out, int capacity) {
#if PG_VERSION_NUM >= 180000
    return pg_b64_encode(bytes, size, out, capacity);
#else
    return pg_b64_encode(reinterpret_cast<const char *>(bytes), size, out, capacity);
#endif
}

// Returns the size, or -1 when the text is not base64 or `out` is too small. 18 changed the type of the bytes.
inline int compat_b64_decode(const char *text, int size, uint8 *out, int capacity) {
#if PG_VERSION_NUM >= 180000
    return pg_b64_decode(text, size, out, capacity);
#else
    return pg_b64_decode(text, size, reinterpret_cast<char *>(out), capacity);
#endif
}

// 16 replaced the functions for each kind of object by one.
inline bool compat_owns_relation(Oid relation, Oid role) {
#if PG_VERSION_NUM >= 160000
    return object_ownercheck(RelationRelationId, relation, role);
#else
    return pg_class_ownercheck(relation, role);
#endif
}

} // namespace idem
