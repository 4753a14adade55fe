// The response that `idem run` stores under its key.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <idem/response.hpp>

#include "process.hpp"

namespace idem::cli {

/// Valid UTF-8 without NUL, which jsonb cannot store.
bool is_storable_text(std::string_view bytes);
std::string base64_encode(std::string_view bytes);
/// Throws std::invalid_argument.
std::string base64_decode(std::string_view text);

/// {"idem_run": 1, "exit_code": …, "signal": …, "host": …, "finished_at": …, "stdout": …, "stderr": …} with the exit code as
/// status code. An output is text, {"base64": …} or, over the limit, {"omitted_bytes": …}.
response to_response(const child_end &end, bool with_output);

struct stored_output {
    std::string bytes;
    std::optional<std::uint64_t> omitted; ///< the number of bytes, if they are not stored
};

struct stored_run {
    int exit_code = 0;
    std::string where, when;               ///< empty: unknown
    std::optional<stored_output> out, err; ///< nothing: not requested
    bool omitted = false;                  ///< over the server's limit: only the exit code is stored
};

/// Nothing: the stored response was not made by to_response.
std::optional<stored_run> from_answer(const answer &stored);

} // namespace idem::cli
