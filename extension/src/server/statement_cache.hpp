// The statements that idem_execute runs, by their text, in the cache of plans.
#pragma once

#include "server/plan_cache.hpp"

namespace idem {

// A prepared statement whose parameters, $1 and on, take the types that their use gives them. After a DDL change the server
// analyzes it again, and the types follow.
struct PreparedStatement : PlanEntry {
    Oid *parameter_types;
    int parameters;
};

// The statement with this text, to be run once: plan[0]. No other call uses it until end_statement, and none at all if the run
// fails: an analysis that was cut short leaves no types behind. Raises 42601 unless the text is one statement, and what a
// client's PREPARE would raise. REQUIRES: SPI is connected, until end_statement.
PreparedStatement *begin_statement(const text *source);
void end_statement(PreparedStatement *statement);

} // namespace idem
