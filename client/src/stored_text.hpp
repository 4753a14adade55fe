// JSON text that jsonb refuses, in a form that jsonb holds.
#pragma once

#include <string>

#include <idem/statement.hpp>

namespace idem::detail {

/// jsonb holds neither U+0000 nor a surrogate without its pair. A result with one of them is stored as {"$base64": "…"}, the
/// text in base64, and returned as it was. So is an object whose first member is "$base64", which could be taken for that form.
struct stored_text {
    explicit stored_text(const parameter &json);

    parameter text;
    /// Set if `text` is in base64: the result with U+FFFD for each character that jsonb refuses. jsonb accepts it if the result
    /// is JSON, so the server is to check it.
    parameter check;
};

/// The result that was stored as this text, which is in jsonb's spelling.
parameter result_of(parameter stored);
/// The same for an object of results: the steps of a key.
parameter results_of(const parameter &stored);

} // namespace idem::detail
