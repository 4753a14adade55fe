// The table that a row flow works on. It is used with the caller's privileges.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Opens and locks the table of argument `arg`. Close it with NoLock, so that the lock lasts until the transaction ends.
// 22004 when NULL, 42P01 when it was dropped, 42809 unless it is a table (temporary, partitioned and partitions included).
Relation open_target(FunctionCallInfo fcinfo, int arg, LOCKMODE lock);

// The same for DDL: 42501 unless the caller owns the table, before anything is locked.
Relation open_own_target(FunctionCallInfo fcinfo, int arg, LOCKMODE lock);

// "schema"."table", quoted where needed.
char *target_name(Relation table);

// Warns when the table has inheritance children: a guard on the parent does not guard their rows, though an UPDATE of the
// parent changes these. `function`: the name of the function that creates the guard.
void warn_of_children(Relation table, const char *function);

// The table as the FROM item t: schema and name, quoted. ONLY unless it is partitioned, as a unique index does not extend to
// inheritance children.
void append_target(StringInfo sql, Relation table);

// t."column"
void append_column(StringInfo sql, Relation table, AttrNumber column);

// "::schema.type" with the base type of the column's domain; nothing when its type is no domain. Both operands of an operator
// need it, as polymorphic operators, such as those of enums, take no domains.
void append_cast_to_base(StringInfo sql, Relation table, AttrNumber column);

// The number of the column with this name; InvalidAttrNumber when there is none. System columns are not found.
AttrNumber find_column(Relation table, const char *name);

// The number of a column that the user named; 42703 when there is none.
AttrNumber column_number(Relation table, const char *name);

// The same for a name argument; 22004 when NULL.
AttrNumber column_argument(FunctionCallInfo fcinfo, int arg, Relation table, const char *argument);

inline Form_pg_attribute column_form(Relation table, AttrNumber column) {
    return TupleDescAttr(RelationGetDescr(table), column - 1);
}
inline const char *column_name(Relation table, AttrNumber column) { return NameStr(column_form(table, column)->attname); }

// The columns that the caller may SELECT: row_data shows no others.
struct ColumnList {
    int count;
    AttrNumber *columns;
};
ColumnList selectable_columns(Relation table);

// The position of a column in the list, from 0; -1 when it is not in it.
int position_in(const ColumnList &list, AttrNumber column);

// Whether row-level security applies to the caller.
inline bool is_row_secured(Relation table) {
    return check_enable_rls(RelationGetRelid(table), InvalidOid, true) == RLS_ENABLED;
}

// Whether the caller may see the column's values in all rows.
bool may_read(Relation table, AttrNumber column);

// After so many attempts, a row that is seen but cannot be locked is one that row-level security does not let the caller
// update. Once or twice, another transaction may just have replaced it by another row with the same key.
inline constexpr int kAttemptsAtHiddenRow = 3;

// 0A000: rows of another server are changed without this server's locks, and read in a snapshot of that server.
[[noreturn]] void raise_foreign_partition(Oid table, Oid partition);

// Raises it if the table has one, at any level. REQUIRES: a lock that keeps partitions from being added.
void refuse_foreign_partitions(Relation table);

// 09000: a row should have been written, and was not.
[[noreturn]] void raise_suppressed(Relation table, const char *command);

} // namespace idem
