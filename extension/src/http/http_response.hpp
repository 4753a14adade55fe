// HTTP responses, and how idem_http_complete stores them in a key: {"headers": {…}, "body": …}, without "body" when there is
// none.
#pragma once

#include "server/pg.hpp"

namespace idem {

// The document to store: of `headers`, the `fields` that the scope stores (HttpPolicy), and `body`. Either may be nullptr.
// 22023 when `headers` is not an object of strings and arrays of strings, or a value contains a line break or NUL.
Jsonb *stored_response(const Jsonb *headers, const Jsonb *body, const char *fields);

struct ReplayedResponse {
    Jsonb *headers; // including the one that marks a replay
    Jsonb *body;    // or nullptr
};

// The response to replay for a stored document or nullptr. A document that idem_http_complete did not store is the body.
ReplayedResponse replayed_response(Jsonb *stored);

// The error that a request is rejected with, by RFC 9457. The headers contain Retry-After unless retry_after is 0.
struct HttpProblem {
    int32 status;
    const char *code;
    const char *detail;
    int64 retry_after; // seconds
};
Jsonb *problem_headers(const HttpProblem &problem);
Jsonb *problem_body(const HttpProblem &problem);

} // namespace idem
