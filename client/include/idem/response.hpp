// The response that a flow stores under its key, and the answer that it returns.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <idem/standard.hpp>

namespace idem {

/// The result of the work, which duplicates receive too: JSON text (may be absent) and a status code of the caller's choice,
/// for example an HTTP status.
struct response {
    response() = default;
    response(std::string body) : json(std::move(body)) {}
    response(const char *body) : json(body) {}
    response(int status, std::string body) : json(std::move(body)), status_code(status) {}

    std::optional<std::string> json;
    std::optional<int> status_code;
};

/// Converts the result of a callable to a response. Specialised for other types (idem/nlohmann.hpp).
template <typename T> struct response_from {
    static_assert(
        std::is_constructible_v<response, T>,
        "the callable returns an idem::response, JSON text, nothing, or a type that idem::response_from is specialised "
        "for, such as nlohmann::json by idem/nlohmann.hpp");
    static response make(T body) { return response(std::move(body)); }
};

/// The result of a flow with a key: the same for the call that did the work and for all duplicates, except `replayed`.
struct answer {
    /// JSON text as jsonb spells it: white space, key order, duplicate keys and the spelling of numbers may
    /// differ from the text that was stored.
    std::optional<std::string> response;
    std::optional<int> status_code;
    bool replayed = false;         ///< another call did the work before
    bool response_omitted = false; ///< the response of the work is not stored: it was too large, or removed since
    int attempt = 1;               ///< 1 + how often the key was taken over or released before
};

} // namespace idem
