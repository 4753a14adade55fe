// The differences between PostgreSQL 15 and 19. This is the only file that reads PG_VERSION_NUM. Each entry gives older servers
// the newest server's interface, and its comment says which version changed what.
#pragma once

#include "server/pg.hpp"

// 18 added a library's name and version, which pg_get_loaded_modules() shows.
#if PG_VERSION_NUM < 180000
#define PG_MODULE_MAGIC_EXT(...) PG_MODULE_MAGIC
#endif

namespace idem {

enum class IndexNeeds { none, all, summarizing };

// 19 added options. 16 added an out-parameter that tells which indexes need entries for the new version. Before 16, all indexes
// need entries unless the new version is heap-only.
inline TM_Result compat_heap_update(Relation relation, ItemPointer tid, HeapTuple tuple, CommandId cid, TM_FailureData *failure,
                                    IndexNeeds *needs) {
    LockTupleMode lock_mode;
#if PG_VERSION_NUM >= 160000
    TU_UpdateIndexes indexes = TU_None;
#if PG_VERSION_NUM >= 190000
    TM_Result result = heap_update(relation, tid, tuple, cid, 0, InvalidSnapshot, true, failure, &lock_mode, &indexes);
#else
    TM_Result result = heap_update(relation, tid, tuple, cid, InvalidSnapshot, true, failure, &lock_mode, &indexes);
#endif
    *needs = indexes == TU_None ? IndexNeeds::none : indexes == TU_All ? IndexNeeds::all : IndexNeeds::summarizing;
#else
    TM_Result result = heap_update(relation, tid, tuple, cid, InvalidSnapshot, true, failure, &lock_mode);
    *needs = result == TM_Ok && !HeapTupleIsHeapOnly(tuple) ? IndexNeeds::all : IndexNeeds::none;
#endif
    return result;
}

// 19 replaced the flag for a row that moves to another partition by options.
inline TM_Result compat_heap_delete(Relation relation, ItemPointer tid, CommandId cid, TM_FailureData *failure,
                                    bool wait = true) {
#if PG_VERSION_NUM >= 190000
    return heap_delete(relation, tid, cid, 0, InvalidSnapshot, wait, failure);
#else
    return heap_delete(relation, tid, cid, InvalidSnapshot, wait, failure, false);
#endif
}

// 19 added a buffer for the page of the visibility map, which may be pinned, and whether the page may be marked all-visible
// because the query does not change the table.
inline void compat_heap_page_prune_opt(Relation relation, Buffer page) {
#if PG_VERSION_NUM >= 190000
    Buffer map = InvalidBuffer;
    heap_page_prune_opt(relation, page, &map, false);
    if (BufferIsValid(map))
        ReleaseBuffer(map);
#else
    heap_page_prune_opt(relation, page);
#endif
}

// 16 added an argument for indexes that only summarize blocks. 19 made the flags one argument.
inline void compat_insert_index_tuples(ResultRelInfo *target, TupleTableSlot *slot, EState *state, bool speculative,
                                       bool *conflict, List *arbiters, [[maybe_unused]] bool only_summarizing) {
#if PG_VERSION_NUM >= 190000
    const uint32 flags = (speculative ? EIIT_NO_DUPE_ERROR : 0) | (only_summarizing ? EIIT_ONLY_SUMMARIZING : 0);
    ExecInsertIndexTuples(target, state, flags, slot, arbiters, conflict);
#elif PG_VERSION_NUM >= 160000
    ExecInsertIndexTuples(target, slot, state, false, speculative, conflict, arbiters, only_summarizing);
#else
    ExecInsertIndexTuples(target, slot, state, false, speculative, conflict, arbiters);
#endif
}

// 19 added flags.
inline TableScanDesc compat_table_beginscan(Relation table, Snapshot snapshot) {
#if PG_VERSION_NUM >= 190000
    return table_beginscan(table, snapshot, 0, nullptr, SO_NONE);
#else
    return table_beginscan(table, snapshot, 0, nullptr);
#endif
}

// 18 added an instrumentation argument, and 19 flags.
inline IndexScanDesc compat_index_beginscan(Relation table, Relation index, Snapshot snapshot, int nkeys) {
#if PG_VERSION_NUM >= 190000
    return index_beginscan(table, index, snapshot, nullptr, nkeys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
    return index_beginscan(table, index, snapshot, nullptr, nkeys, 0);
#else
    return index_beginscan(table, index, snapshot, nkeys, 0);
#endif
}

// Sets `leaf` to the leaf on which the key belongs, locked for reading, or to InvalidBuffer. 16 added the heap relation, 17
// dropped the snapshot, and 19 returns the way there only if asked.
inline void compat_bt_search([[maybe_unused]] Relation table, Relation index, BTScanInsert key, Buffer *leaf) {
#if PG_VERSION_NUM >= 190000
    (void)_bt_search(index, table, key, leaf, BT_READ, false);
#elif PG_VERSION_NUM >= 170000
    _bt_freestack(_bt_search(index, table, key, leaf, BT_READ));
#elif PG_VERSION_NUM >= 160000
    _bt_freestack(_bt_search(index, table, key, leaf, BT_READ, nullptr));
#else
    _bt_freestack(_bt_search(index, key, leaf, BT_READ, nullptr));
#endif
}

// The struct that the handler of an index method returns. 19 keeps the pointer. Before, the server copied the struct and freed
// it.
inline const IndexAmRoutine *compat_index_method(const IndexAmRoutine &method) {
#if PG_VERSION_NUM >= 190000
    return &method;
#else
    auto *copy = static_cast<IndexAmRoutine *>(palloc(sizeof(IndexAmRoutine)));
    *copy = method;
    return copy;
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

// The wait event `name`, a literal, of type Extension. `event`: where the session keeps it, 0 before the first call. 17 added
// names.
inline uint32 compat_wait_event([[maybe_unused]] uint32 *event, [[maybe_unused]] const char *name) {
#if PG_VERSION_NUM >= 170000
    if (*event == 0)
        *event = WaitEventExtensionNew(name);
    return *event;
#else
    return PG_WAIT_EXTENSION;
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

// 19 dropped the number of entries for which memory is set aside at first. REQUIRES: a table of fixed size.
inline HTAB *compat_shmem_init_hash(const char *name, int entries, HASHCTL *layout, int flags) {
#if PG_VERSION_NUM >= 190000
    return ShmemInitHash(name, entries, layout, flags);
#else
    return ShmemInitHash(name, entries, entries, layout, flags);
#endif
}

// 19 made the modes of LockBuffer an enum.
#if PG_VERSION_NUM < 190000
using BufferLockMode = int;
#endif

// The number of a system cache, as a callback takes it. 19 made it an enum.
#if PG_VERSION_NUM >= 190000
using SyscacheNumber = SysCacheIdentifier;
#else
using SyscacheNumber = int;
#endif

// A JSON value that is being built. 19 put it and its result into one struct. `result` is set by the token that ends the value.
#if PG_VERSION_NUM < 190000
struct JsonbInState {
    JsonbValue *result;
    JsonbParseState *parseState;
};

inline void pushJsonbValue(JsonbInState *state, JsonbIteratorToken token, JsonbValue *value) {
    state->result = ::pushJsonbValue(&state->parseState, token, value);
}
#endif

// 16 replaced the functions for each kind of object by one.
inline bool compat_owns_relation(Oid relation, Oid role) {
#if PG_VERSION_NUM >= 160000
    return object_ownercheck(RelationRelationId, relation, role);
#else
    return pg_class_ownercheck(relation, role);
#endif
}

} // namespace idem
