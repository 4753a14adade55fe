// nlohmann::json as what flows take and give. Only for programs that have that library: nothing else includes this file.
//
// A parser of JSON makes double of numbers with a fraction: money that has to stay exact goes as text, or as integers.
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

/// JSON text as the library hands it out: answer.json, row_result.row, the row of a callable. Nothing is null.
inline nlohmann::json parsed(const std::optional<std::string> &text) {
    return text ? nlohmann::json::parse(*text) : nlohmann::json();
}
inline nlohmann::json parsed(const answer &known) { return parsed(known.json); }

} // namespace idem
