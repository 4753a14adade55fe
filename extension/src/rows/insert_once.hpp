// What unique_insert and guarded_insert share: the statements that insert a row and find the one that it would duplicate.
#pragma once

#include "rows/foreseen.hpp"
#include "rows/row_statement.hpp"

namespace idem {

// INSERT … [ON CONFLICT DO NOTHING] RETURNING, as the caller. `clause` goes between VALUES and RETURNING; `control` is a
// condition over the item t, the inserted row.
void prepare_insert(RowStatement *statement, const RowCall &call, const char *clause, const char *control);

// SELECT … WHERE condition over the item t, and what may follow it.
void prepare_find(RowStatement *statement, const RowCall &call, const char *condition);

// Raises what keeps the caller from running these, before anything of the table's is run or locked.
void require_insert_or_find(const RowRun &run);

// False when nothing was inserted.
bool insert_row(const RowRun &run, RowResult *result);

// What the caller sees of the row that is there.
bool find_duplicate(const RowRun &run, RowResult *result, Snapshot snapshot = nullptr);

// Whether there is one that row-level security hides from the caller. To be told only to who may insert the row: a unique
// index tells them as much.
bool is_hidden_duplicate(const RowRun &run, const RowCall &call, Snapshot snapshot = nullptr);

// The columns of a name[] argument. 22004 for a null, 22023 when empty or a name comes twice.
void column_names_argument(FunctionCallInfo fcinfo, int arg, const char *argument, RowCall *call);
ColumnList named_columns(const RowCall &call);

Datum insert_answer(FunctionCallInfo fcinfo, bool inserted, const Jsonb *row);

} // namespace idem
