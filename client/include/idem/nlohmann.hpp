// nlohmann::json as the result of callables and flows. Only for programs that use that library: no other header includes this.
//
// The parser converts numbers with a fraction to double: represent exact amounts as strings or integers.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include <idem/response.hpp>

namespace idem {

/// A callable of `once` or `leased` may return a nlohmann::json. Throws nlohmann::json::type_error for text that is not UTF-8.
template <> struct response_from<nlohmann::json> {
    static response make(const nlohmann::json &body) { return response(body.dump()); }
};

inline response json_response(int status_code, const nlohmann::json &body) { return {status_code, body.dump()}; }

/// Parses JSON text from the library: answer.response, row_result.row, the row of a callable. Nothing becomes null.
inline nlohmann::json parsed(const std::optional<std::string> &text) {
    return text ? nlohmann::json::parse(*text) : nlohmann::json();
}
inline nlohmann::json parsed(const answer &known) { return parsed(known.response); }

} // namespace idem
