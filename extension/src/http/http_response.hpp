// A response as HTTP requests have it, and how idem_http_complete stores it in a key: {"headers": {…}, "body": …}, without
// "body" when there is none.
#pragma once

#include "server/pg.hpp"

namespace idem {

// `headers` as far as the scope stores them, and `body`, each nullptr when there is none. 22023 when `headers` is not an
// object of strings and arrays of strings, or has a line break or NUL in a value. `fields`: what is stored (HttpPolicy).
Jsonb *stored_response(const Jsonb *headers, const Jsonb *body, const char *fields);

struct ReplayedResponse {
    Jsonb *headers; // with the one that says that it is a replay
    Jsonb *body;    // or nullptr
};

// What is stored, or nullptr, as the response to replay. What was not stored by idem_http_complete is a body.
ReplayedResponse replayed_response(Jsonb *stored);

// The error that a request is rejected with: RFC 9457. Its headers have retry_after, in seconds, unless that is 0.
struct HttpProblem {
    int32 status;
    const char *code;
    const char *detail;
    int64 retry_after;
};
Jsonb *problem_headers(const HttpProblem &problem);
Jsonb *problem_body(const HttpProblem &problem);

} // namespace idem
