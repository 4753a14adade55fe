// The table that both of the usual ways keep their tokens in: a row for each form that is handed out, sent or not.
#pragma once

#include <pqxx/pqxx>

namespace demo::forms {

void create_token_table(pqxx::work &transaction);

inline constexpr const char *kInsertToken = "INSERT INTO form_tokens (customer, expires_at)"
                                            " VALUES ($1, clock_timestamp() + $2::interval) RETURNING token";

} // namespace demo::forms
