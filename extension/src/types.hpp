// The extension's own types, as sql/types.sql and sql/http.sql make them.
#pragma once

#include "core/key_state.hpp"
#include "core/token.hpp"
#include "extension.hpp"
#include "row_answer.hpp"

namespace idem {

// What becomes of a signed request.
enum class RequestOutcome : int { accepted, replayed, stale, invalid };

extern EnumType outcome_enum;         // by core::Outcome
extern EnumType token_outcome_enum;   // by core::TokenOutcome
extern EnumType request_outcome_enum; // by RequestOutcome

inline Datum outcome_datum(core::Outcome outcome) { return enum_value(outcome_enum, static_cast<int>(outcome)); }

extern const AnswerType ticket_type;
extern const AnswerType key_info_type;
extern const AnswerType http_answer_type;

// Raises 55000 for the first type that is not as it was installed.
void check_types();

} // namespace idem
