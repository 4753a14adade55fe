// The outcome of redeeming a token: idem_token_outcome of sql/tokens/tokens.sql.
#pragma once

#include "core/token.hpp"
#include "server/row_answer.hpp"

namespace idem {

inline constinit EnumType token_outcome_enum = {"idem_token_outcome",
                                                {"accepted", "duplicate", "in_flight", "expired", "invalid"},
                                                core::kTokenOutcomes,
                                                InvalidOid,
                                                {},
                                                0}; // by core::TokenOutcome

} // namespace idem
