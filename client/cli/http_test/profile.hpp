// What each protocol prescribes, and where it says so.
#pragma once

#include <string>
#include <string_view>

namespace idem::cli::http_test {

/// The form of an error's body.
enum class error_form { problem, stripe, flat, ucp };

/// `status` 0: the protocol names none, and any error status will do. `code` empty: the protocol names none.
struct refusal {
    int status = 0;
    std::string_view code;
};

/// When two bodies are the same request. `open`: the protocol leaves it to the server.
enum class equality { open, json, bytes };

/// The same key at another route.
enum class other_route { open, mismatch, independent };

/// Whether a repetition gets the stored error.
enum class stored { open, yes, no };

struct profile {
    std::string_view name;
    bool quoted; ///< the key is a string of Structured Fields
    bool key_required;
    bool bounded;   ///< a key of more than 255 characters is malformed
    bool one_value; ///< two field lines are malformed
    refusal missing, mismatch, in_flight;
    bool requires_retry_after;
    bool marker; ///< Idempotent-Replayed
    bool echo, echo_on_errors;
    equality bodies;
    other_route routes;
    stored client_errors, server_errors;
    error_form form;
};

/// Throws usage_error.
const profile &find_profile(std::string_view name);

/// The source of a case's rule in this profile, empty if the profile has no such rule. `id` is the case's.
std::string_view source_of(const profile &which, std::string_view id);

} // namespace idem::cli::http_test
