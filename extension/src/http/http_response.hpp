// HTTP responses of handlers, and how idem_http_complete stores them in a key: {"headers": {...}} and, when there is a body,
// one of "text" (it was given as text), "utf8" (it was given as bytes that are text) and "base64" (other bytes).
#pragma once

#include "http/http_arguments.hpp"

namespace idem {

// The document to store: of `headers`, which may be nullptr, the `fields` that the scope stores (HttpPolicy), and the body.
// 22023 when `headers` is not an object, or a stored field is not one or more texts or numbers without line breaks.
Jsonb *stored_response(const Jsonb *headers, const HttpBody &body, const char *fields);

struct ReplayedResponse {
    Jsonb *headers; // including those that mark a replay
    HttpBody body;
};

// The response to replay for a stored document or nullptr, with the key as a header field unless it is nullptr. A document that
// idem_http_complete did not store is the body, as JSON. Without its body, a response says that it is omitted, and has no field
// that describes the body.
ReplayedResponse replayed_response(Jsonb *stored, bool is_omitted, const char *echoed_key);

bytea *bytea_of(std::string_view bytes);

} // namespace idem
