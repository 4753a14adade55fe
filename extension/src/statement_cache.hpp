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
};

// The statement with this text. Raises 42601 unless the text is one statement. REQUIRES: SPI is connected.
const PreparedStatement *prepare_statement(const text *statement);

} // namespace idem
