// Plans of the statements that idem_execute runs, by their text, kept per backend.
#pragma once

#include "server/pg.hpp"

namespace idem {

// A prepared statement whose parameters, $1 and on, take the types that their use gives them; after a DDL change the server
// analyzes it anew, and the types follow.
struct PreparedStatement {
    SPIPlanPtr plan;
    Oid *parameter_types;
    int parameters;
};

// The statement with this text, to be run once: it stays until end_statement, whatever calls come in between. One whose run
// fails is not used again, as an analysis that was cut short leaves no types behind. Raises 42601 unless the text is one
// statement, and what a client's PREPARE would raise. REQUIRES: SPI is connected, until end_statement.
PreparedStatement *begin_statement(const text *source);
void end_statement(PreparedStatement *statement);

} // namespace idem
