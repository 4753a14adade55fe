// The type that idem_http_begin returns: idem_http_answer of sql/http/http.sql.
#pragma once

#include "server/row_answer.hpp"

namespace idem {

inline constexpr AnswerType http_answer_type = {
    "idem_http_answer", nullptr, 6, {TEXTOID, INT4OID, JSONBOID, TEXTOID, BYTEAOID, INT8OID}};

} // namespace idem
