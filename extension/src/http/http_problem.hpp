// The response that rejects a request: by RFC 9457, or as one of the APIs that scopes can speak (docs/http.md).
#pragma once

#include "scopes/scope.hpp"

namespace idem {

struct HttpProblem {
    HttpRefusal refusal;
    int32 status;
    int64 retry_after;             // seconds; 0: no Retry-After
    const char *documentation_url; // nullptr: none
    const char *echoed_key;        // nullptr: none
};

// The code of the rejection, whatever the format says.
const char *problem_code(HttpRefusal refusal);

Jsonb *problem_headers(const HttpProblem &problem, HttpErrorFormat format);
Jsonb *problem_body(const HttpProblem &problem, HttpErrorFormat format);

// The header fields of a response with the key alone.
Jsonb *echo_headers(const char *key);

} // namespace idem
