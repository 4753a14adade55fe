// The unique index for the columns of a `key` object. A row flow finds its row by this index and never by a scan.
#pragma once

#include "rows/target.hpp"

namespace idem {

struct UniqueKey {
    Oid index; // a B-tree; of leading_key, any kind that finds equal values
    int count;
    AttrNumber columns[INDEX_MAX_KEYS];
    Oid equality[INDEX_MAX_KEYS];  // operator, column = column
    Oid order[INDEX_MAX_KEYS];     // comparison function, with a result as that of memcmp
    Oid collation[INDEX_MAX_KEYS]; // that of the index; InvalidOid: none
    Oid operator_class[INDEX_MAX_KEYS];
    bool nulls_are_equal; // UNIQUE NULLS NOT DISTINCT
};

// Whether columns that allow nulls may take part.
enum class Nulls { refused, allowed };

// The key of exactly these columns: the primary key, or a unique index that is valid, not partial, not on expressions and not
// deferrable. 42P10 when there is none; the hint names the keys of the table.
UniqueKey unique_key(Relation table, const ColumnList &columns, Nulls nulls);

// The primary key, or else the oldest index that unique_key would take. False: there is none.
bool find_main_key(Relation table, UniqueKey *key);

// An index that is not partial and begins with the columns, so that it finds rows by them without a scan. The key has the
// columns in the order given. 42P10 when there is no such index.
UniqueKey leading_key(Relation table, const ColumnList &columns);

// t."column" = $n, for the column at `position` of the key, with the operator and the collation of the index.
void append_equality(StringInfo sql, Relation table, const UniqueKey &key, int position, int parameter);

// All of them, joined by AND. The values are parameters from `first` on, in the order of `given`, which are the key's columns.
void append_key_condition(StringInfo sql, Relation table, const UniqueKey &key, const ColumnList &given, int first);

// The target of ON CONFLICT that selects this index, and no other on the same columns.
void append_arbiter(StringInfo sql, Relation table, const UniqueKey &key);

// OPERATOR(schema.name)
void append_operator(StringInfo sql, Oid op);

// ("a", "b")
void append_column_names(StringInfo text, Relation table, const AttrNumber *columns, int count);

} // namespace idem
