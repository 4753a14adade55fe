// What makes two HTTP requests the same one: the fingerprint of method, route and body, as the scope's settings compare them.
#pragma once

#include "http/http_arguments.hpp"
#include "scopes/scope.hpp"

namespace idem {

struct HttpRequest {
    const text *method;
    const text *route;
    HttpBody body;
    const text *content_type; // or nullptr
    const bytea *digest;      // the caller's own, which stands for route and body; or nullptr
};

// One version byte, which names the parts and how the body is compared, and a SHA-256 of the parts. docs/http.md has the form.
const bytea *request_fingerprint(const HttpRequest &request, const HttpPolicy &policy);

} // namespace idem
