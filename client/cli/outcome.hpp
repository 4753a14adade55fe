// What `idem run` stores under its key, and how it is read again.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <idem/response.hpp>

#include "process.hpp"

namespace idem::cli {

/// UTF-8, and nothing that JSON in the database cannot hold (NUL).
bool is_storable_text(std::string_view bytes);
std::string base64_encode(std::string_view bytes);
/// Throws std::invalid_argument.
std::string base64_decode(std::string_view text);

/// {"idem_run": 1, "exit_code": …, "signal": …, "host": …, "finished_at": …, "stdout": …, "stderr": …} with the exit code as
/// status code. An output is text, {"base64": …} or, over the limit, {"omitted_bytes": …}.
response to_response(const child_end &end, bool with_output);

struct stored_output {
    std::string bytes;
    std::optional<std::uint64_t> omitted; ///< so many bytes are not stored
};

struct stored_run {
    int exit_code = 0;
    std::string where, when;               ///< empty: not known
    std::optional<stored_output> out, err; ///< nothing: was not to be stored
    bool omitted = false;                  ///< the server's limit left no more than the exit code
};

/// Nothing: what is stored was not stored by to_response.
std::optional<stored_run> from_answer(const answer &stored);

} // namespace idem::cli
