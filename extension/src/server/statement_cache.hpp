// The statements of idem_execute in the cache of plans. The key is the statement's text.
#pragma once

#include "server/plan_cache.hpp"

namespace idem {

// A prepared statement. The types of its parameters ($1, $2, …) are inferred from their use. After DDL, the server analyzes the
// statement again and infers them again.
struct PreparedStatement : PlanEntry {
    Oid *parameter_types;
    int parameters;
};

// Returns the statement with this text, to run plan[0] once. No other call uses the entry until end_statement. If the run
// fails, no call uses it again, because an interrupted analysis leaves no types. Raises 42601 unless the text is one statement,
// and the errors of a client's PREPARE. REQUIRES: SPI is connected, until end_statement.
PreparedStatement *begin_statement(const text *source);
void end_statement(PreparedStatement *statement);

} // namespace idem
