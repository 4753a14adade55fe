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

// A duplicate may be gone when it is looked for. After so many attempts there was none, and something else kept the row out.
constexpr int kMostAttempts = 100;

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
void append_conflict_condition(StringInfo sql, const RowCall &call, const UniqueKey &key, const Foreseen &foreseen) {
    for (int i = 0; i < key.count; i++) {
        const int parameter = foreseen.columns[i].parameter;
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
    Foreseen *foreseen = foresee_columns(statement, call, {key.count, key.columns});
    statement->extra = foreseen;
    statement->arbiter = key.index;
    StringInfoData clause, condition;
    initStringInfo(&clause);
    initStringInfo(&condition);
    appendStringInfoString(&clause, " ON CONFLICT ");
    append_arbiter(&clause, call.table, key);
    appendStringInfoString(&clause, " DO NOTHING");
    append_conflict_condition(&condition, call, key, *foreseen);
    prepare_insert(statement, call, clause.data, "true");
    // There is one row at most. LIMIT would make the planner prefer to read the whole index for a null.
    prepare_find(statement, call, condition.data);
}

bool is_duplicate(const RowRun &run, const RowCall &call, RowResult *result) {
    return find_duplicate(run, result) || is_hidden_duplicate(run, call);
}

bool insert_or_find(const RowRun &run, const RowCall &call, RowResult *result) {
    const auto &foreseen = *static_cast<const Foreseen *>(run.statement->extra);
    for (int attempt = 0; attempt < kMostAttempts; attempt++) {
        check_for_interrupts();
        if (insert_row(run, result))
            return true;
        foresee_values(run, call, foreseen);
        if (is_duplicate(run, call, result))
            return false;
        // The conflict may concern values that a trigger has changed, for example to lower case.
        if (has_insert_triggers(call.table)) {
            if (!foresee_triggered_values(run, call, foreseen))
                break;
            if (is_duplicate(run, call, result))
                return false;
        }
    }
    raise_suppressed(call.table, "INSERT");
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(unique_insert);

PGDLLEXPORT Datum unique_insert(PG_FUNCTION_ARGS) {
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

} // extern "C"
