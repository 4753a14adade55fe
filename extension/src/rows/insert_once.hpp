// Statements of unique_insert and guarded_insert: they insert a row, and find the row that it would duplicate.
#pragma once

#include "rows/new_key.hpp"

namespace idem {

// INSERT … [ON CONFLICT DO NOTHING] RETURNING, as the caller. `clause` goes between VALUES and RETURNING. Adds the statement's
// last parameter.
void prepare_insert(RowStatement *statement, const RowCall &call, const char *clause);

// SELECT … WHERE `condition`, over the item t; further clauses may follow the condition.
void prepare_find(RowStatement *statement, const RowCall &call, const char *condition);

// Raises the errors that keep the caller from running these statements, before code of the table runs or anything is locked.
void require_insert_or_find(const RowRun &run);

// False when nothing was inserted.
bool insert_row(const RowRun &run, RowResult *result, const RowObserver &observer);

// Finds the row that exists, as far as the caller may see it.
bool find_duplicate(const RowRun &run, RowResult *result, Snapshot snapshot = nullptr);

// Whether row-level security hides such a row from the caller. Only a caller that may insert the row may learn of it, as a
// unique index would reveal the same.
bool is_hidden_duplicate(const RowRun &run, const RowCall &call, Snapshot snapshot = nullptr);

// The columns of a name[] argument. 22004 for a null, 22023 when empty or a name comes twice.
void column_names_argument(FunctionCallInfo fcinfo, int arg, const char *argument, RowCall *call);
ColumnList named_columns(const RowCall &call);

Datum insert_answer(FunctionCallInfo fcinfo, bool inserted, const Jsonb *row);

} // namespace idem
