// guarded_insert: insert a row unless one with the same values exists, without a unique index. Callers with equal values wait
// for each other, and each sees the rows that earlier callers have committed.
#include "rows/equal_hash.hpp"
#include "rows/insert_once.hpp"
#include "rows/unique_key.hpp"
#include "server/arguments.hpp"
#include "server/bytes.hpp"
#include "server/subtransaction.hpp"
#include "server/value_lock.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { target, new_row, match_columns };
};

struct Guard {
    NewKey *match;
    Oid root;          // of the partition tree: callers of partition and parent take the same locks
    UniqueKey columns; // equality and collation of each
    bool is_known;     // new_row has the values that the row will have, but for a trigger of a single partition
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

bool has_row_triggers(Relation table) { return table->trigdesc != nullptr && table->trigdesc->trig_insert_before_row; }

bool has_hash(Relation table, AttrNumber column) {
    return OidIsValid(hash_function(column_form(table, column)->atttypid)->fn_oid);
}

void build(RowStatement *statement, const RowCall &call) {
    const ColumnList columns = match_columns_of(call);
    auto *guard = static_cast<Guard *>(MemoryContextAllocZero(statement->memory, sizeof(Guard)));
    guard->columns = leading_key(call.table, columns);
    guard->match = new_key(statement, call, columns);
    guard->is_known = guard->match->is_given && !has_row_triggers(call.table);
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
    appendStringInfoString(&condition, " LIMIT 1");
    prepare_find(statement, call, condition.data);
    prepare_insert(statement, call, "");
}

uint64 hash_of_columns(const RowCall &call, const Guard &guard) {
    uint64 hash = hash_of_bytes(&guard.root, sizeof guard.root);
    for (int i = 0; i < guard.match->count; i++) {
        const char *name = column_name(call.table, guard.match->columns[i].column);
        hash = hash_of_bytes(name, strlen(name) + 1, hash);
    }
    return hash;
}

// A type without a hash function contributes nothing: its values share a lock.
uint64 hash_of_values(const RowRun &run, const RowCall &call, const Guard &guard, uint64 hash) {
    for (int i = 0; i < guard.match->count; i++) {
        const NewKeyColumn &column = guard.match->columns[i];
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

enum class Duplicate { none, visible, hidden };

struct Attempt {
    const RowRun &run;
    const RowCall &call;
    RowResult *result;
    bool has_searched; // the values are locked, and `duplicate` is known
    Duplicate duplicate;
};

const Guard &guard_of(const Attempt &attempt) { return *static_cast<const Guard *>(attempt.run.statement->extra); }

// Locks the values, then searches for a row that has them.
void find_duplicate(Attempt *attempt) {
    require_values(attempt->run, attempt->call, guard_of(*attempt));
    lock_values(attempt->run, attempt->call, guard_of(*attempt));
    attempt->duplicate = Duplicate::none;
    if (find_duplicate(attempt->run, attempt->result, GetLatestSnapshot()))
        attempt->duplicate = Duplicate::visible;
    else if (is_hidden_duplicate(attempt->run, attempt->call, GetLatestSnapshot()))
        attempt->duplicate = Duplicate::hidden;
    attempt->has_searched = true;
}

// Ends the INSERT of a duplicate by an error. Values that have been locked before are searched for again if a trigger of a
// partition has changed them; there may be no subtransaction that an error could end.
void find_duplicate_within_insert(void *argument, TupleTableSlot *row) {
    auto *attempt = static_cast<Attempt *>(argument);
    const bool is_changed = set_shown_key(attempt->run, attempt->call, *guard_of(*attempt).match, row);
    const bool is_second_search = attempt->has_searched;
    if (is_second_search && !is_changed)
        return;
    SPI_connect();
    find_duplicate(attempt);
    SPI_finish();
    if (is_second_search && attempt->duplicate != Duplicate::none)
        raise_suppressed(attempt->call.table, "INSERT");
    if (attempt->duplicate == Duplicate::visible)
        ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION), errmsg_internal("row is a duplicate")));
}

void insert_guarded_row(Attempt *attempt) {
    const bool is_inserted = insert_row(attempt->run, attempt->result, {find_duplicate_within_insert, attempt});
    if (is_inserted && !attempt->has_searched)
        elog(ERROR, "row of table \"%s\" was inserted unguarded", RelationGetRelationName(attempt->call.table));
    if (is_inserted)
        return;
    // A trigger or rule has kept the row out. A duplicate may exist all the same.
    if (!attempt->has_searched && guard_of(*attempt).match->is_given) {
        set_given_key(attempt->run, *guard_of(*attempt).match);
        find_duplicate(attempt);
    }
    if (attempt->duplicate != Duplicate::visible)
        raise_suppressed(attempt->call.table, "INSERT");
}

// The triggers have run for a row that turns out to be a duplicate: what they did is undone. Of a row that the caller cannot
// see, only a caller that may insert the new row learns. So the row is inserted, and the insertion is undone.
void insert_unless_duplicate(Attempt *attempt) {
    ErrorData *error = try_in_subtransaction([&] {
        insert_guarded_row(attempt);
        return attempt->duplicate == Duplicate::none;
    });
    if (error != nullptr && attempt->duplicate != Duplicate::visible)
        ReThrowError(error);
}

bool insert_or_find(const RowRun &run, const RowCall &call, RowResult *result) {
    Attempt attempt{run, call, result, false, Duplicate::none};
    require_insert_or_find(run);
    if (guard_of(attempt).is_known) {
        set_given_key(run, *guard_of(attempt).match);
        find_duplicate(&attempt);
    }
    if (!guard_of(attempt).is_known || attempt.duplicate == Duplicate::hidden)
        insert_unless_duplicate(&attempt);
    else if (attempt.duplicate == Duplicate::none)
        insert_guarded_row(&attempt);
    switch (attempt.duplicate) {
    case Duplicate::none:
        return true;
    case Duplicate::visible:
        require_in_snapshot(!IsolationUsesXactSnapshot() || find_duplicate(run, result));
        return false;
    case Duplicate::hidden:
        result->row = nullptr;
        require_in_snapshot(!IsolationUsesXactSnapshot() || is_hidden_duplicate(run, call));
        return false;
    }
    pg_unreachable();
}

} // namespace

SQL_FUNCTION(guarded_insert) {
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
