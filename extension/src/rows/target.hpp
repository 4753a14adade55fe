// The table that a row flow works on: the caller's own, used with the caller's privileges.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Opens and locks the table of argument `arg`; close it with NoLock, so that the lock lasts as long as the transaction.
// 22004 when NULL, 42P01 when it was dropped, 42809 unless it is a table (temporary, partitioned and partitions included).
Relation open_target(FunctionCallInfo fcinfo, int arg, LOCKMODE lock);

// The same for DDL: 42501 unless the caller owns the table, before anything is locked.
Relation open_own_target(FunctionCallInfo fcinfo, int arg, LOCKMODE lock);

// "schema"."table", quoted where needed.
char *target_name(Relation table);

// A guard on an inheritance parent is not one on its children, though an UPDATE of the parent reaches their rows: warns when
// there are any. `function`: what put the guard there.
void warn_of_children(Relation table, const char *function);

// What a statement calls it: schema and name, quoted; always within one FROM item "AS t". ONLY, except of a partitioned table:
// a unique index does not reach into inheritance children.
void append_target(StringInfo sql, Relation table);

// t."column"
void append_column(StringInfo sql, Relation table, AttrNumber column);

// ::schema.type that the column's domain is over, and nothing where its type is no domain. To either side of an operator:
// polymorphic ones, as those of enums are, take no domains.
void append_cast_to_base(StringInfo sql, Relation table, AttrNumber column);

// The number of the column with this name; InvalidAttrNumber when there is none. System columns are none.
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

// Where a column is in the list, from 0; -1: nowhere.
int position_in(const ColumnList &list, AttrNumber column);

// Whether row-level security stands between the caller and the table.
inline bool is_row_secured(Relation table) {
    return check_enable_rls(RelationGetRelid(table), InvalidOid, true) == RLS_ENABLED;
}

// Whether the caller may see what the column holds, in all rows.
bool may_read(Relation table, AttrNumber column);

// A row that is seen, and so often in a row cannot be locked: row-level security does not let the caller update it. Once or
// twice, somebody may have replaced it by another row with the same key just then.
inline constexpr int kAttemptsAtHiddenRow = 3;

// 0A000: rows of another server are changed without this server's locks, and read in a snapshot of that server.
[[noreturn]] void raise_foreign_partition(Oid table, Oid partition);

// Raises it if the table has one, at any level. REQUIRES: a lock that keeps partitions from being added.
void refuse_foreign_partitions(Relation table);

// 09000: the row was there to be written, and was not.
[[noreturn]] void raise_suppressed(Relation table, const char *command);

} // namespace idem
