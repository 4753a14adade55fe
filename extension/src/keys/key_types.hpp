// The types of sql/keys/types.sql that functions on keys return.
#pragma once

#include "core/key_state.hpp"
#include "server/row_answer.hpp"

namespace idem {

inline constinit EnumType outcome_enum = {"idem_outcome",
                                          {"acquired", "taken_over", "in_flight", "completed", "mismatch", "in_doubt"},
                                          core::kOutcomes,
                                          InvalidOid,
                                          {},
                                          0}; // by core::Outcome

inline Datum outcome_datum(core::Outcome outcome) { return enum_value(outcome_enum, static_cast<int>(outcome)); }

inline constexpr AnswerType ticket_type = {
    "idem_ticket",
    &outcome_enum,
    9,
    {InvalidOid, INT8OID, INT4OID, TIMESTAMPTZOID, INT4OID, JSONBOID, BOOLOID, JSONBOID, INT4OID}};

inline constexpr AnswerType key_info_type = {
    "idem_key_info",
    nullptr,
    9,
    {TEXTOID, INT4OID, JSONBOID, BOOLOID, INT4OID, JSONBOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID}};

} // namespace idem
