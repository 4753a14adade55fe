// What a flow stores under its key, and what it answers.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace idem {

/// What the work leaves behind for those who come again: JSON text (absent: nothing to replay but the fact) and a status code
/// of the caller's choice, an HTTP status as a rule.
struct response {
    response() = default;
    response(std::string json_text) : json(std::move(json_text)) {}
    response(const char *json_text) : json(json_text) {}
    response(int status, std::string json_text) : json(std::move(json_text)), status_code(status) {}

    std::optional<std::string> json;
    std::optional<int> status_code;
};

/// How what a callable returns becomes a response. Specialised for other types (idem/nlohmann.hpp).
template <typename T> struct response_from {
    static response make(T body) { return response(std::move(body)); }
};

/// What a keyed flow answers, the same for the one who did the work and for all who come again.
struct answer {
    std::optional<std::string>
        json; ///< JSON as the database holds it (jsonb: white space, key order and 1.0 may differ from what was stored)
    std::optional<int> status_code;
    bool replayed = false; ///< true: the work had been done before, by another call
    bool omitted = false;  ///< the response was over the scope's limit and is not stored; the work is done all the same
    int attempt = 1;       ///< 1 + how often the key had been taken over or released before
};

} // namespace idem
