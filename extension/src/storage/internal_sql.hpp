// SQL of idem's own, for what needs no speed. The caller's search_path must not matter, so every name and operator in such a
// statement is qualified.
#pragma once

#include "server/pg.hpp"

namespace idem {

struct SqlArgument {
    Oid type;
    Datum value;
    bool is_null;
};

// Runs one statement as the extension's owner, on idem's own tables; the caller's privileges were checked before. `result`,
// when given, receives the first column of its first row as a by-value datum (false: no row).
bool run_as_owner(const char *statement, const SqlArgument *arguments, int count, Datum *result = nullptr);

// Runs a statement without parameters as the caller, under the caller's search_path: DDL on the caller's own tables.
void run_as_caller(const char *statement);

} // namespace idem
