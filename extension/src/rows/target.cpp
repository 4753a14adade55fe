#include "rows/target.hpp"

#include "server/arguments.hpp"
#include "server/compat.hpp"

namespace idem {

namespace {

void check_kind(Relation table) {
    const char kind = table->rd_rel->relkind;
    if (kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE)
        return;
    ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" is not a table", RelationGetRelationName(table)),
                    errdetail_relkind_not_supported(kind),
                    kind == RELKIND_VIEW ? errhint("Give the table that the view is made of.") : 0));
}

} // namespace

Relation open_target(FunctionCallInfo fcinfo, int arg, LOCKMODE lock) {
    if (PG_ARGISNULL(arg))
        raise_null_argument("target");
    const Oid oid = PG_GETARG_OID(arg);
    Relation table = try_relation_open(oid, lock);
    if (table == nullptr)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", oid)));
    check_kind(table);
    return table;
}

Relation open_own_target(FunctionCallInfo fcinfo, int arg, LOCKMODE lock) {
    if (!PG_ARGISNULL(arg) && SearchSysCacheExists1(RELOID, PG_GETARG_DATUM(arg)) &&
        !compat_owns_relation(PG_GETARG_OID(arg), GetUserId()))
        aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(PG_GETARG_OID(arg))),
                       get_rel_name(PG_GETARG_OID(arg)));
    return open_target(fcinfo, arg, lock);
}

char *target_name(Relation table) {
    return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(table)), RelationGetRelationName(table));
}

void warn_of_children(Relation table, const char *function) {
    if (table->rd_rel->relkind == RELKIND_RELATION && table->rd_rel->relhassubclass &&
        find_inheritance_children(RelationGetRelid(table), NoLock) != NIL)
        ereport(WARNING, (errmsg("rows of the tables that inherit from \"%s\" are not guarded", RelationGetRelationName(table)),
                          errhint("Call %s for each of those tables, too.", function)));
}

void append_target(StringInfo sql, Relation table) {
    if (table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        appendStringInfoString(sql, "ONLY ");
    appendStringInfo(sql, "%s AS t", target_name(table));
}

void append_column(StringInfo sql, Relation table, AttrNumber column) {
    appendStringInfo(sql, "t.%s", quote_identifier(column_name(table, column)));
}

void append_cast_to_base(StringInfo sql, Relation table, AttrNumber column) {
    const Oid type = column_form(table, column)->atttypid;
    const Oid base = getBaseType(type);
    // As with a type modifier: without one, char and bit would be spelled as SQL's character(1) and bit(1).
    if (base != type)
        appendStringInfo(sql, "::%s", format_type_extended(base, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
}

AttrNumber find_column(Relation table, const char *name) {
    TupleDesc columns = RelationGetDescr(table);
    for (int i = 0; i < columns->natts; i++) {
        Form_pg_attribute column = TupleDescAttr(columns, i);
        if (!column->attisdropped && strcmp(NameStr(column->attname), name) == 0)
            return column->attnum;
    }
    return InvalidAttrNumber;
}

AttrNumber column_number(Relation table, const char *name) {
    const AttrNumber column = find_column(table, name);
    if (column == InvalidAttrNumber)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                        errmsg("column \"%s\" of relation \"%s\" does not exist", name, RelationGetRelationName(table)),
                        errtable(table)));
    return column;
}

AttrNumber column_argument(FunctionCallInfo fcinfo, int arg, Relation table, const char *argument) {
    if (PG_ARGISNULL(arg))
        raise_null_argument(argument);
    return column_number(table, NameStr(*PG_GETARG_NAME(arg)));
}

bool may_read(Relation table, AttrNumber column) {
    const Oid relation = RelationGetRelid(table), role = GetUserId();
    return !is_row_secured(table) && (pg_class_aclcheck(relation, role, ACL_SELECT) == ACLCHECK_OK ||
                                      pg_attribute_aclcheck(relation, column, role, ACL_SELECT) == ACLCHECK_OK);
}

ColumnList selectable_columns(Relation table) {
    TupleDesc layout = RelationGetDescr(table);
    const Oid relation = RelationGetRelid(table), role = GetUserId();
    const bool all = pg_class_aclcheck(relation, role, ACL_SELECT) == ACLCHECK_OK;
    ColumnList list{0, static_cast<AttrNumber *>(palloc(sizeof(AttrNumber) * Max(layout->natts, 1)))};
    for (int i = 0; i < layout->natts; i++) {
        const AttrNumber number = i + 1;
        if (!TupleDescAttr(layout, i)->attisdropped &&
            (all || pg_attribute_aclcheck(relation, number, role, ACL_SELECT) == ACLCHECK_OK))
            list.columns[list.count++] = number;
    }
    return list;
}

int position_in(const ColumnList &list, AttrNumber column) {
    for (int i = 0; i < list.count; i++)
        if (list.columns[i] == column)
            return i;
    return -1;
}

void raise_foreign_partition(Oid table, Oid partition) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("table \"%s\" has a foreign partition, \"%s\"", get_rel_name(table), get_rel_name(partition)),
                    errdetail("The rows of another server can change without the locks of this one.")));
    pg_unreachable();
}

void refuse_foreign_partitions(Relation table) {
    if (table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
        return;
    const ListCell *cell;
    foreach (cell, find_all_inheritors(RelationGetRelid(table), NoLock, nullptr))
        if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_FOREIGN_TABLE)
            raise_foreign_partition(RelationGetRelid(table), lfirst_oid(cell));
}

void raise_suppressed(Relation table, const char *command) {
    ereport(ERROR, (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
                    errmsg("%s on table \"%s\" was suppressed", command, RelationGetRelationName(table)),
                    errdetail("A trigger or rule of the table discarded the row, or changed the columns that it is found by."),
                    errtable(table)));
    pg_unreachable();
}

} // namespace idem
