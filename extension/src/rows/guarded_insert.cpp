// guarded_insert: insert a row unless one with the same values exists, without a unique index. Callers with equal values wait
// for each other, and each sees the rows that earlier callers have committed.
#include "rows/equal_hash.hpp"
#include "rows/insert_once.hpp"
#include "rows/unique_key.hpp"
#include "server/arguments.hpp"
#include "server/subtransaction.hpp"
#include "server/value_lock.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { target, new_row, match_columns };
};

struct Guard {
    Foreseen *match;
    Oid root;          // of the partition tree: callers of partition and parent take the same locks
    UniqueKey columns; // equality and collation of each
    bool is_coarse;    // values that are equal for the index may have different hashes
};

// Sorted by name: the lock does not depend on the order in which the caller names them. A partition may number them
// differently.
ColumnList match_columns_of(const RowCall &call) {
    ColumnList list = named_columns(call);
    for (int i = 1; i < list.count; i++)
        for (int j = i;
             j > 0 && strcmp(column_name(call.table, list.columns[j]), column_name(call.table, list.columns[j - 1])) < 0; j--) {
            const AttrNumber moved = list.columns[j];
            list.columns[j] = list.columns[j - 1];
            list.columns[j - 1] = moved;
        }
    return list;
}

Oid root_of(Relation table) {
    if (!table->rd_rel->relispartition)
        return RelationGetRelid(table);
    return llast_oid(get_partition_ancestors(RelationGetRelid(table)));
}

// Values are hashed by the collation of the column, as the indexes of a partition and of its parent may have different
// collations. Values that are equal by a deterministic collation are equal by any collation.
bool hashes_agree(Relation table, const UniqueKey &columns, int position) {
    Form_pg_attribute form = column_form(table, columns.columns[position]);
    const Oid collation = columns.collation[position];
    return implies_equal_hashes(form->atttypid, columns.equality[position]) &&
           (!OidIsValid(collation) || collation == form->attcollation || get_collation_isdeterministic(collation));
}

bool has_hash(Relation table, AttrNumber column) {
    return OidIsValid(hash_function(column_form(table, column)->atttypid)->fn_oid);
}

void build(RowStatement *statement, const RowCall &call) {
    const ColumnList columns = match_columns_of(call);
    auto *guard = static_cast<Guard *>(MemoryContextAllocZero(statement->memory, sizeof(Guard)));
    guard->columns = leading_key(call.table, columns);
    guard->match = foresee_columns(statement, call, columns);
    guard->root = root_of(call.table);
    for (int i = 0; i < columns.count; i++)
        guard->is_coarse =
            guard->is_coarse || (has_hash(call.table, columns.columns[i]) && !hashes_agree(call.table, guard->columns, i));
    statement->extra = guard;
    StringInfoData condition;
    initStringInfo(&condition);
    for (int i = 0; i < columns.count; i++) {
        appendStringInfoString(&condition, i > 0 ? " AND " : "");
        append_equality(&condition, call.table, guard->columns, i, guard->match->columns[i].parameter);
    }
    prepare_insert(statement, call, "", condition.data);
    appendStringInfoString(&condition, " LIMIT 1");
    prepare_find(statement, call, condition.data);
}

uint64 hash_of_columns(const RowCall &call, const Guard &guard) {
    uint64 hash = hash_bytes_extended(reinterpret_cast<const unsigned char *>(&guard.root), sizeof guard.root, 0);
    for (int i = 0; i < guard.match->count; i++) {
        const char *name = column_name(call.table, guard.match->columns[i].column);
        hash = hash_bytes_extended(reinterpret_cast<const unsigned char *>(name), static_cast<int>(strlen(name)) + 1, hash);
    }
    return hash;
}

// A type without a hash function contributes nothing: its values share a lock.
uint64 hash_of_values(const RowRun &run, const RowCall &call, const Guard &guard, uint64 hash) {
    for (int i = 0; i < guard.match->count; i++) {
        const ForeseenColumn &column = guard.match->columns[i];
        Form_pg_attribute form = column_form(call.table, column.column);
        const FmgrInfo *function = hash_function(form->atttypid);
        if (OidIsValid(function->fn_oid))
            hash = DatumGetUInt64(FunctionCall2Coll(const_cast<FmgrInfo *>(function), form->attcollation,
                                                    run.values.get(column.parameter), UInt64GetDatum(hash)));
    }
    return hash;
}

// Callers with equal values take conflicting locks. If equal values have equal hashes, that is the lock of the hash. If the
// index has a coarser equality, it is the exclusive lock of the columns, which also conflicts with the shared one of the
// others.
void lock_values(const RowRun &run, const RowCall &call, const Guard &guard) {
    const uint64 columns = hash_of_columns(call, guard);
    lock_value(ValueLock::guarded_insert, columns, guard.is_coarse ? ExclusiveLock : ShareLock);
    if (!guard.is_coarse)
        lock_value(ValueLock::guarded_insert, hash_of_values(run, call, guard, columns));
}

void require_values(const RowRun &run, const RowCall &call, const Guard &guard) {
    for (int i = 0; i < guard.match->count; i++)
        if (run.values.is_null(guard.match->columns[i].parameter))
            ereport(ERROR,
                    (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                     errmsg("match column \"%s\" must not be null", column_name(call.table, guard.match->columns[i].column))));
}

// 40001 when the transaction's own snapshot does not see the row.
void require_in_snapshot(bool is_seen) {
    if (is_seen)
        return;
    ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE), errmsg("could not serialize access due to concurrent update"),
                    errhint("The transaction might succeed if retried.")));
}

// The values after triggers count. If a trigger discards the row, the values before do, as a duplicate may exist all the same.
bool foresee_with_triggers(const RowRun &run, const RowCall &call, const Foreseen &match) {
    return has_insert_triggers(call.table) && foresee_triggered_values(run, call, match);
}

void insert_guarded_row(const RowRun &run, const RowCall &call, RowResult *result) {
    // A row with values other than the locked ones would not be guarded.
    if (!insert_row(run, result) || !DatumGetBool(result->control[0]))
        raise_suppressed(call.table, "INSERT");
}

// A row that the caller cannot see is a duplicate all the same. Only a caller that may insert the new row learns of it: so the
// row is inserted, and the insertion rolled back.
bool insert_unless_hidden(const RowRun &run, const RowCall &call, RowResult *result) {
    const bool hidden = is_hidden_duplicate(run, call, GetLatestSnapshot());
    in_subtransaction([&] {
        insert_guarded_row(run, call, result);
        return !hidden;
    });
    if (!hidden)
        return true;
    result->row = nullptr;
    require_in_snapshot(!IsolationUsesXactSnapshot() || is_hidden_duplicate(run, call));
    return false;
}

bool insert_or_find(const RowRun &run, const RowCall &call, RowResult *result) {
    const auto &guard = *static_cast<const Guard *>(run.statement->extra);
    require_insert_or_find(run);
    if (!foresee_with_triggers(run, call, *guard.match))
        foresee_values(run, call, *guard.match);
    require_values(run, call, guard);
    lock_values(run, call, guard);
    if (find_duplicate(run, result, GetLatestSnapshot())) {
        require_in_snapshot(!IsolationUsesXactSnapshot() || find_duplicate(run, result));
        return false;
    }
    if (is_row_secured(call.table))
        return insert_unless_hidden(run, call, result);
    insert_guarded_row(run, call, result);
    return true;
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(guarded_insert);

PGDLLEXPORT Datum guarded_insert(PG_FUNCTION_ARGS) {
    RowCall call{};
    call.function = "guarded_insert";
    call.table = open_target(fcinfo, Argument::target, RowExclusiveLock);
    call.objects = 1;
    call.object[0] = row_object_argument(fcinfo, Argument::new_row, "new_row");
    if (PG_ARGISNULL(Argument::match_columns))
        raise_null_argument("match_columns");
    column_names_argument(fcinfo, Argument::match_columns, "match_columns", &call);
    call.visible = selectable_columns(call.table);
    PreventCommandIfReadOnly("guarded_insert()");
    PreventCommandDuringRecovery("guarded_insert()");
    const RowRun run = begin_run(call, build, FirstObject::row);
    RowResult result{};
    const bool inserted = insert_or_find(run, call, &result);
    end_run(call);
    return insert_answer(fcinfo, inserted, result.row);
}

} // extern "C"
