#include "types.hpp"

namespace idem {

constinit EnumType outcome_enum = {"idem_outcome",
                                   {"acquired", "taken_over", "in_flight", "completed", "mismatch", "in_doubt"},
                                   core::kOutcomes,
                                   InvalidOid,
                                   {},
                                   0};

constinit EnumType token_outcome_enum = {"idem_token_outcome",
                                         {"accepted", "duplicate", "in_flight", "expired", "invalid"},
                                         core::kTokenOutcomes,
                                         InvalidOid,
                                         {},
                                         0};

constinit EnumType request_outcome_enum = {
    "idem_request_outcome", {"accepted", "replayed", "stale", "invalid"}, 4, InvalidOid, {}, 0};

constinit const AnswerType ticket_type = {
    "idem_ticket",
    &outcome_enum,
    9,
    {InvalidOid, INT8OID, INT4OID, TIMESTAMPTZOID, INT4OID, JSONBOID, BOOLOID, TEXTOID, INTERVALOID}};

constinit const AnswerType key_info_type = {
    "idem_key_info",
    nullptr,
    10,
    {TEXTOID, INT4OID, JSONBOID, BOOLOID, INT4OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, BOOLOID}};

constinit const AnswerType http_answer_type = {"idem_http_answer", nullptr, 5, {TEXTOID, INT4OID, JSONBOID, JSONBOID, INT8OID}};

void check_types() {
    for (EnumType *type : {&outcome_enum, &token_outcome_enum, &request_outcome_enum})
        check_enum(*type);
    for (const AnswerType *type : {&ticket_type, &key_info_type, &http_answer_type})
        check_answer_type(*type);
}

} // namespace idem
