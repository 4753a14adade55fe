// The types that functions on requests return: those of sql/http/http.sql.
#pragma once

#include "server/row_answer.hpp"

namespace idem {

inline constexpr AnswerType http_answer_type = {
    "idem_http_answer", nullptr, 8, {TEXTOID, INT4OID, JSONBOID, TEXTOID, BYTEAOID, INT8OID, TEXTOID, BOOLOID}};

// What became of a response.
enum class HttpStored { stored, omitted, released, unkeyed };
inline constinit EnumType http_stored_enum = {
    "idem_http_stored", {"stored", "omitted", "released", "unkeyed"}, 4, InvalidOid, {}, 0}; // by HttpStored

} // namespace idem
