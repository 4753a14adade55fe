// Plans of the statements that idem_execute runs, by their text, kept per backend.
#pragma once

#include "pg.hpp"

namespace idem {

// A prepared statement whose parameters, $1 and on, take the types that their use gives them; after a DDL change the server
// analyzes it anew, and the types follow.
struct PreparedStatement {
    SPIPlanPtr plan;
    Oid *parameter_types;
    int parameters;
    int running;                   // how many calls are running it now,
    LocalTransactionId running_in; // if they are of this transaction: an error leaves the count as it was
};

// The statement with this text, to be run: it stays until end_statement, or the transaction's end, whatever calls come in
// between. Raises 42601 unless the text is one statement. REQUIRES: SPI is connected.
const PreparedStatement *begin_statement(const text *source);
void end_statement(const PreparedStatement *statement);

} // namespace idem
