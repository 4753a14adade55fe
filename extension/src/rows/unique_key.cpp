#include "rows/unique_key.hpp"

#include "server/compat.hpp"

namespace idem {

namespace {

bool may_serve(Relation table, Relation index, Nulls nulls) {
    Form_pg_index form = index->rd_index;
    if (!form->indisunique || !form->indisvalid || !form->indisready || !form->indislive || !form->indimmediate)
        return false;
    if (!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr) ||
        !heap_attisnull(index->rd_indextuple, Anum_pg_index_indexprs, nullptr))
        return false;
    if (nulls == Nulls::refused)
        for (int i = 0; i < form->indnkeyatts; i++)
            if (!column_form(table, form->indkey.values[i])->attnotnull)
                return false;
    return true;
}

// Whether the first columns of the index are exactly these, in any order. An index may name a column twice.
bool begins_with(Relation index, const ColumnList &columns) {
    Form_pg_index form = index->rd_index;
    if (form->indnkeyatts < columns.count)
        return false;
    for (int i = 0; i < columns.count; i++) {
        bool found = false;
        for (int j = 0; j < columns.count; j++)
            found = found || form->indkey.values[j] == columns.columns[i];
        if (!found)
            return false;
    }
    return true;
}

bool is_made_of(Relation index, const ColumnList &columns) {
    return index->rd_index->indnkeyatts == columns.count && begins_with(index, columns);
}

UniqueKey key_of(Relation index) {
    Form_pg_index form = index->rd_index;
    bool is_null;
    const auto *classes = reinterpret_cast<const oidvector *>(
        DatumGetPointer(SysCacheGetAttr(INDEXRELID, index->rd_indextuple, Anum_pg_index_indclass, &is_null)));
    UniqueKey key{};
    key.index = RelationGetRelid(index);
    key.count = form->indnkeyatts;
    key.nulls_are_equal = form->indnullsnotdistinct;
    for (int i = 0; i < key.count; i++) {
        const Oid family = index->rd_opfamily[i], type = index->rd_opcintype[i];
        key.columns[i] = form->indkey.values[i];
        key.equality[i] = get_opfamily_member(family, type, type, BTEqualStrategyNumber);
        key.order[i] = get_opfamily_proc(family, type, type, BTORDER_PROC);
        key.collation[i] = index->rd_indcollation[i];
        key.operator_class[i] = classes->values[i];
    }
    return key;
}

// Calls `visit` for every index that may serve, until it returns true.
template <typename Visit> bool any_usable_index(Relation table, Nulls nulls, Visit visit) {
    List *indexes = RelationGetIndexList(table);
    bool found = false;
    ListCell *cell;
    foreach (cell, indexes) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        if (may_serve(table, index, nulls))
            found = visit(index);
        index_close(index, NoLock);
        if (found)
            break;
    }
    list_free(indexes);
    return found;
}

// Whether the index begins with these columns, in any order; then `key` has them in theirs.
bool find_leading(Relation index, const ColumnList &columns, UniqueKey *key) {
    Form_pg_index form = index->rd_index;
    const bool is_btree = index->rd_rel->relam == BTREE_AM_OID;
    if (!(is_btree || index->rd_rel->relam == HASH_AM_OID) || !form->indisvalid || !form->indisready || !form->indislive ||
        !heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr) || !begins_with(index, columns))
        return false;
    *key = {};
    for (int i = 0; i < columns.count; i++) {
        const int position = position_in(columns, form->indkey.values[i]);
        const Oid type = index->rd_opcintype[i];
        key->columns[position] = form->indkey.values[i];
        key->equality[position] =
            get_opfamily_member(index->rd_opfamily[i], type, type, is_btree ? BTEqualStrategyNumber : HTEqualStrategyNumber);
        key->collation[position] = index->rd_indcollation[i];
    }
    key->index = RelationGetRelid(index);
    key->count = columns.count;
    return true;
}

[[noreturn]] void raise_no_such_key(Relation table, const ColumnList &columns, Nulls nulls) {
    StringInfoData given, usable;
    initStringInfo(&given);
    initStringInfo(&usable);
    append_column_names(&given, table, columns.columns, columns.count);
    any_usable_index(table, nulls, [&](Relation index) {
        appendStringInfoString(&usable, usable.len > 0 ? ", " : "");
        append_column_names(&usable, table, index->rd_index->indkey.values, index->rd_index->indnkeyatts);
        return false;
    });
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
             errmsg("columns %s are not a unique key of table \"%s\"", given.data, RelationGetRelationName(table)),
             errdetail("Needed are exactly the columns of its primary key or of a unique index that is valid, not partial, not "
                       "on expressions and not deferrable%s.",
                       nulls == Nulls::refused ? ", all of them NOT NULL" : ""),
             usable.len > 0 ? errhint("The table has: %s.", usable.data) : errhint("The table has none: add a primary key."),
             errtable(table)));
    pg_unreachable();
}

} // namespace

UniqueKey unique_key(Relation table, const ColumnList &columns, Nulls nulls) {
    UniqueKey key;
    if (!any_usable_index(table, nulls, [&](Relation index) {
            if (!is_made_of(index, columns))
                return false;
            key = key_of(index);
            return true;
        }))
        raise_no_such_key(table, columns, nulls);
    return key;
}

bool find_main_key(Relation table, UniqueKey *key) {
    const Oid primary = compat_primary_key(table);
    bool found = false;
    // The list is in the order of the OIDs.
    any_usable_index(table, Nulls::refused, [&](Relation index) {
        const bool is_primary = RelationGetRelid(index) == primary;
        if (!found || is_primary)
            *key = key_of(index);
        found = true;
        return is_primary;
    });
    return found;
}

UniqueKey leading_key(Relation table, const ColumnList &columns) {
    UniqueKey key{};
    List *indexes = RelationGetIndexList(table);
    ListCell *cell;
    foreach (cell, indexes) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        const bool leads = find_leading(index, columns, &key);
        index_close(index, NoLock);
        if (leads)
            return key;
    }
    StringInfoData wanted;
    initStringInfo(&wanted);
    append_column_names(&wanted, table, columns.columns, columns.count);
    ereport(ERROR, (errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
                    errmsg("no index of table \"%s\" begins with columns %s", RelationGetRelationName(table), wanted.data),
                    errhint("Run CREATE INDEX ON %s %s.", target_name(table), wanted.data), errtable(table)));
    pg_unreachable();
}

void append_operator(StringInfo sql, Oid op) {
    HeapTuple tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(op));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for operator %u", op);
    auto *form = reinterpret_cast<Form_pg_operator>(GETSTRUCT(tuple));
    appendStringInfo(sql, " OPERATOR(%s.%s) ", quote_identifier(get_namespace_name(form->oprnamespace)),
                     NameStr(form->oprname));
    ReleaseSysCache(tuple);
}

namespace {

void append_collation(StringInfo sql, Oid collation) {
    HeapTuple tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for collation %u", collation);
    auto *form = reinterpret_cast<Form_pg_collation>(GETSTRUCT(tuple));
    appendStringInfo(sql, " COLLATE %s",
                     quote_qualified_identifier(get_namespace_name(form->collnamespace), NameStr(form->collname)));
    ReleaseSysCache(tuple);
}

} // namespace

void append_equality(StringInfo sql, Relation table, const UniqueKey &key, int position, int parameter) {
    append_column(sql, table, key.columns[position]);
    append_cast_to_base(sql, table, key.columns[position]);
    if (OidIsValid(key.collation[position]) &&
        key.collation[position] != column_form(table, key.columns[position])->attcollation)
        append_collation(sql, key.collation[position]);
    append_operator(sql, key.equality[position]);
    appendStringInfo(sql, "$%d", parameter);
    append_cast_to_base(sql, table, key.columns[position]);
}

void append_key_condition(StringInfo sql, Relation table, const UniqueKey &key, const ColumnList &given, int first) {
    for (int i = 0; i < key.count; i++) {
        appendStringInfoString(sql, i > 0 ? " AND " : "");
        append_equality(sql, table, key, i, first + position_in(given, key.columns[i]));
    }
}

namespace {

void append_operator_class(StringInfo sql, Oid operator_class) {
    HeapTuple tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(operator_class));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for operator class %u", operator_class);
    auto *form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple));
    appendStringInfo(sql, " %s", quote_qualified_identifier(get_namespace_name(form->opcnamespace), NameStr(form->opcname)));
    ReleaseSysCache(tuple);
}

} // namespace

void append_arbiter(StringInfo sql, Relation table, const UniqueKey &key) {
    const Oid constraint = get_index_constraint(key.index);
    if (OidIsValid(constraint)) {
        appendStringInfo(sql, "ON CONSTRAINT %s", quote_identifier(get_constraint_name(constraint)));
        return;
    }
    for (int i = 0; i < key.count; i++) {
        appendStringInfo(sql, "%s%s", i > 0 ? ", " : "(", quote_identifier(column_name(table, key.columns[i])));
        if (OidIsValid(key.collation[i]))
            append_collation(sql, key.collation[i]);
        append_operator_class(sql, key.operator_class[i]);
    }
    appendStringInfoChar(sql, ')');
}

void append_column_names(StringInfo text, Relation table, const AttrNumber *columns, int count) {
    appendStringInfoChar(text, '(');
    for (int i = 0; i < count; i++)
        appendStringInfo(text, "%s%s", i > 0 ? ", " : "", quote_identifier(column_name(table, columns[i])));
    appendStringInfoChar(text, ')');
}

} // namespace idem
