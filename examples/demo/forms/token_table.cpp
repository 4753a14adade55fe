#include "token_table.hpp"

namespace demo::forms {

void create_token_table(pqxx::work &transaction) {
    transaction.exec("CREATE TABLE form_tokens ("
                     " token      text PRIMARY KEY DEFAULT gen_random_uuid(),"
                     " customer   int NOT NULL,"
                     " expires_at timestamptz NOT NULL)");
}

} // namespace demo::forms
