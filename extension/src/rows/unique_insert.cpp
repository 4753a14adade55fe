// unique_insert: insert a row, or find the one that exists. The unique index decides.
#include "rows/insert_once.hpp"
#include "rows/unique_key.hpp"
#include "server/arguments.hpp"
#include "server/compat.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { target, new_row, conflict_columns };
};

// A duplicate may be gone when it is searched for. After so many attempts the caller has to retry.
constexpr int kMaxAttempts = 100;

UniqueKey conflict_key(const RowCall &call) {
    if (call.names > 0)
        return unique_key(call.table, named_columns(call), Nulls::allowed);
    UniqueKey key;
    if (!find_main_key(call.table, &key) || key.index != compat_primary_key(call.table))
        ereport(ERROR, (errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
                        errmsg("table \"%s\" has no primary key that is not deferrable", RelationGetRelationName(call.table)),
                        errhint("Name the columns of a unique key in conflict_columns."), errtable(call.table)));
    return key;
}

// An index finds nulls by IS NULL, which is also true of a composite value whose fields are all null.
void append_both_null(StringInfo sql, Relation table, AttrNumber column, int parameter) {
    const bool is_row = type_is_rowtype(column_form(table, column)->atttypid);
    appendStringInfoString(sql, is_row ? "pg_catalog.num_nulls(" : "(");
    append_column(sql, table, column);
    appendStringInfo(sql, is_row ? ", $%d) OPERATOR(pg_catalog.=) 2" : " IS NULL AND $%d IS NULL)", parameter);
}

// Rows that are equal for the index; with UNIQUE NULLS NOT DISTINCT, so are nulls.
void append_conflict_condition(StringInfo sql, const RowCall &call, const UniqueKey &key, const NewKey &values) {
    for (int i = 0; i < key.count; i++) {
        const int parameter = values.columns[i].parameter;
        appendStringInfo(sql, "%s(", i > 0 ? " AND " : "");
        append_equality(sql, call.table, key, i, parameter);
        if (key.nulls_are_equal) {
            appendStringInfoString(sql, " OR ");
            append_both_null(sql, call.table, key.columns[i], parameter);
        }
        appendStringInfoChar(sql, ')');
    }
}

void build(RowStatement *statement, const RowCall &call) {
    UniqueKey key = conflict_key(call);
    NewKey *values = new_key(statement, call, {key.count, key.columns});
    statement->extra = values;
    statement->arbiter = key.index;
    StringInfoData clause, condition;
    initStringInfo(&clause);
    initStringInfo(&condition);
    appendStringInfoString(&clause, " ON CONFLICT ");
    append_arbiter(&clause, call.table, key);
    appendStringInfoString(&clause, " DO NOTHING");
    append_conflict_condition(&condition, call, key, *values);
    prepare_insert(statement, call, clause.data);
    // There is one row at most. LIMIT would make the planner prefer to read the whole index for a null.
    prepare_find(statement, call, condition.data);
}

struct Attempt {
    const RowRun &run;
    const RowCall &call;
    Oid table; // the table or partition that the row was meant for; InvalidOid: a trigger or rule kept it out
};

const NewKey &key_of(const RowRun &run) { return *static_cast<const NewKey *>(run.statement->extra); }

void note_row(void *argument, TupleTableSlot *row) {
    auto *attempt = static_cast<Attempt *>(argument);
    set_shown_key(attempt->run, attempt->call, key_of(attempt->run), row);
    attempt->table = row->tts_tableOid;
}

bool is_duplicate(const RowRun &run, const RowCall &call, RowResult *result) {
    return find_duplicate(run, result) || is_hidden_duplicate(run, call);
}

// Another attempt would run them once more.
bool has_run_triggers(const Attempt &attempt) {
    const TriggerDesc *of_statement = attempt.call.table->trigdesc;
    if (of_statement != nullptr && (of_statement->trig_insert_before_statement || of_statement->trig_insert_after_statement))
        return true;
    Relation table = table_open(attempt.table, NoLock); // the INSERT has locked it
    const bool found = table->trigdesc != nullptr && table->trigdesc->trig_insert_before_row;
    table_close(table, NoLock);
    return found;
}

[[noreturn]] void raise_vanished(Relation table) {
    ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE), errmsg("could not serialize access due to concurrent delete"),
                    errdetail("A duplicate kept the row out of table \"%s\" and was gone before it could be read.",
                              RelationGetRelationName(table)),
                    errhint("The transaction might succeed if retried."), errtable(table)));
    pg_unreachable();
}

bool insert_or_find(const RowRun &run, const RowCall &call, RowResult *result) {
    for (int attempts = 1;; attempts++) {
        check_for_interrupts();
        Attempt attempt{run, call, InvalidOid};
        if (insert_row(run, result, {note_row, &attempt}))
            return true;
        const bool is_kept_out = !OidIsValid(attempt.table);
        if (is_kept_out && !key_of(run).is_given)
            raise_suppressed(call.table, "INSERT");
        if (is_kept_out)
            set_given_key(run, key_of(run));
        if (is_duplicate(run, call, result))
            return false;
        if (is_kept_out)
            raise_suppressed(call.table, "INSERT");
        if (attempts == kMaxAttempts || has_run_triggers(attempt))
            raise_vanished(call.table);
    }
}

} // namespace

SQL_FUNCTION(unique_insert) {
    RowCall call{};
    call.function = "unique_insert";
    call.table = open_target(fcinfo, Argument::target, RowExclusiveLock);
    call.objects = 1;
    call.object[0] = row_object_argument(fcinfo, Argument::new_row, "new_row");
    if (!PG_ARGISNULL(Argument::conflict_columns))
        column_names_argument(fcinfo, Argument::conflict_columns, "conflict_columns", &call);
    call.visible = selectable_columns(call.table);
    const RowRun run = begin_run(call, build, FirstObject::row);
    RowResult result{};
    const bool inserted = insert_or_find(run, call, &result);
    end_run(call);
    return insert_answer(fcinfo, inserted, result.row);
}
