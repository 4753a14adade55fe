// SQL that idem runs itself, for tasks that need no speed. Every name and operator in such a statement is qualified, so that
// the caller's search_path has no effect.
#pragma once

#include "server/pg.hpp"

namespace idem {

struct SqlArgument {
    Oid type;
    Datum value;
    bool is_null;
};

// Runs one statement on idem's own tables as the extension's owner. Returns whether it returned a row; `result`, unless
// nullptr, then receives the first column of the first row. REQUIRES: the caller's privileges were checked; that column is
// passed by value.
bool run_as_owner(const char *statement, const SqlArgument *arguments, int count, Datum *result = nullptr);

// Runs a statement without parameters as the caller and with the caller's search_path, for DDL on the caller's own tables.
void run_as_caller(const char *statement);

} // namespace idem
