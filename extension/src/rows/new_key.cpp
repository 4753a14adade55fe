#include "rows/new_key.hpp"

namespace idem {

namespace {

void require_repeatable_default(Relation table, AttrNumber column) {
    Node *expression = build_column_default(table, column);
    if (expression == nullptr || (column_form(table, column)->attidentity == '\0' && !contain_volatile_functions(expression)))
        return;
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("new_row lacks column \"%s\" of table \"%s\"", column_name(table, column), RelationGetRelationName(table)),
             errdetail("Its default gives every row another value, so such a row is never a duplicate."),
             errhint("Give the column, or name the columns of another unique key."), errtablecol(table, column)));
}

} // namespace

NewKey *new_key(RowStatement *statement, const RowCall &call, const ColumnList &columns) {
    auto *key = static_cast<NewKey *>(MemoryContextAllocZero(statement->memory, sizeof(NewKey)));
    key->count = columns.count;
    key->columns = static_cast<NewKeyColumn *>(MemoryContextAllocZero(statement->memory, sizeof(NewKeyColumn) * columns.count));
    key->is_given = true;
    for (int i = 0; i < columns.count; i++) {
        const AttrNumber column = columns.columns[i];
        const int position = position_in(statement->reader[0].columns, column);
        if (position < 0) {
            require_repeatable_default(call.table, column);
            key->is_given = false;
        }
        key->columns[i] = {column, add_parameter(statement, column_form(call.table, column)->atttypid),
                           position < 0 ? 0 : statement->first[0] + position};
    }
    return key;
}

void set_given_key(const RowRun &run, const NewKey &key) {
    for (int i = 0; i < key.count; i++) {
        const NewKeyColumn &column = key.columns[i];
        run.values.values[column.parameter - 1] = run.values.values[column.given - 1];
        run.values.nulls[column.parameter - 1] = run.values.nulls[column.given - 1];
    }
}

bool set_shown_key(const RowRun &run, const RowCall &call, const NewKey &key, TupleTableSlot *row) {
    const MemoryContext caller = MemoryContextSwitchTo(run.memory);
    bool is_changed = false;
    for (int i = 0; i < key.count; i++) {
        const char *name = column_name(call.table, key.columns[i].column);
        const AttrNumber number = get_attnum(row->tts_tableOid, name); // partitions may number columns differently
        const int parameter = key.columns[i].parameter;
        Form_pg_attribute form = TupleDescAttr(row->tts_tupleDescriptor, number - 1);
        bool is_null;
        const Datum value = slot_getattr(row, number, &is_null);
        is_changed = is_changed || is_null != run.values.is_null(parameter) ||
                     (!is_null && !datum_image_eq(value, run.values.get(parameter), form->attbyval, form->attlen));
        run.values.nulls[parameter - 1] = is_null ? 'n' : ' ';
        run.values.values[parameter - 1] = is_null ? Datum{0} : datumCopy(value, form->attbyval, form->attlen);
    }
    MemoryContextSwitchTo(caller);
    return is_changed;
}

} // namespace idem
