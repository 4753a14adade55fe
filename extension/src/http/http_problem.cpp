#include "http/http_problem.hpp"

#include "core/http_message.hpp"
#include "server/json_builder.hpp"

namespace idem {

namespace {

// The codes of a rejection. The fields that other APIs have no code for in their documents are idem's own.
struct Refusal {
    const char *code;
    const char *detail;
    const char *stripe_type;
    const char *stripe_code; // nullptr: none
    const char *acp_type;
    const char *acp_code;
    const char *ucp_code;
};
constexpr Refusal kRefusals[kHttpRefusals] = {
    {"key_missing", "The request needs an Idempotency-Key header field.", "invalid_request_error", "idempotency_key_required",
     "invalid_request", "idempotency_key_required", "IDEMPOTENCY_KEY_REQUIRED"},
    {"key_malformed", "The Idempotency-Key header field is not one string of 1 to 1024 printable ASCII characters.",
     "invalid_request_error", "idempotency_key_malformed", "invalid_request", "idempotency_key_malformed",
     "IDEMPOTENCY_KEY_MALFORMED"},
    {"mismatch", "The Idempotency-Key was used before, with another method, route or body.", "idempotency_error", nullptr,
     "invalid_request", "idempotency_conflict", "IDEMPOTENCY_CONFLICT"},
    {"in_flight", "The request with this Idempotency-Key is being processed. Repeat it later.", "invalid_request_error",
     "idempotency_key_in_use", "invalid_request", "idempotency_in_flight", "IDEMPOTENCY_IN_FLIGHT"},
    {"in_doubt", "What became of the request with this Idempotency-Key is not known yet. An operator has to decide.",
     "api_error", "idempotency_key_in_doubt", "processing_error", "idempotency_in_doubt", "IDEMPOTENCY_IN_DOUBT"},
};

const Refusal &refusal_of(const HttpProblem &problem) { return kRefusals[static_cast<int>(problem.refusal)]; }

Jsonb *rfc9457_body(const HttpProblem &problem) {
    JsonBuilder body = JsonBuilder::object();
    body.add_member("type", problem.documentation_url != nullptr ? problem.documentation_url : "about:blank");
    body.add_member("title", core::http_reason(problem.status));
    JsonbValue status;
    status.type = jbvNumeric;
    status.val.numeric = int64_to_numeric(problem.status);
    body.add_member("status", status);
    body.add_member("detail", refusal_of(problem).detail);
    body.add_member("code", refusal_of(problem).code);
    return body.finish_object();
}

Jsonb *stripe_body(const HttpProblem &problem) {
    const Refusal &refusal = refusal_of(problem);
    JsonBuilder error = JsonBuilder::object(), body = JsonBuilder::object();
    error.add_member("type", refusal.stripe_type);
    if (refusal.stripe_code != nullptr)
        error.add_member("code", refusal.stripe_code);
    error.add_member("message", refusal.detail);
    if (problem.documentation_url != nullptr)
        error.add_member("doc_url", problem.documentation_url);
    body.add_member("error", document_value(error.finish_object()));
    return body.finish_object();
}

Jsonb *acp_body(const HttpProblem &problem) {
    JsonBuilder body = JsonBuilder::object();
    body.add_member("type", refusal_of(problem).acp_type);
    body.add_member("code", refusal_of(problem).acp_code);
    body.add_member("message", refusal_of(problem).detail);
    return body.finish_object();
}

Jsonb *ucp_body(const HttpProblem &problem) {
    JsonBuilder body = JsonBuilder::object();
    body.add_member("code", refusal_of(problem).ucp_code);
    body.add_member("content", refusal_of(problem).detail);
    return body.finish_object();
}

} // namespace

const char *problem_code(HttpRefusal refusal) { return kRefusals[static_cast<int>(refusal)].code; }

Jsonb *problem_headers(const HttpProblem &problem, HttpErrorFormat format) {
    JsonBuilder headers = JsonBuilder::object();
    headers.add_member("Content-Type", format == HttpErrorFormat::problem ? "application/problem+json" : "application/json");
    if (problem.documentation_url != nullptr)
        headers.add_member("Link", psprintf("<%s>; rel=\"describedby\"", problem.documentation_url));
    if (problem.retry_after > 0)
        headers.add_member("Retry-After", psprintf(INT64_FORMAT, problem.retry_after));
    if (problem.echoed_key != nullptr)
        headers.add_member(core::kKeyField, problem.echoed_key);
    return headers.finish_object();
}

Jsonb *problem_body(const HttpProblem &problem, HttpErrorFormat format) {
    switch (format) {
    case HttpErrorFormat::problem:
        return rfc9457_body(problem);
    case HttpErrorFormat::stripe:
        return stripe_body(problem);
    case HttpErrorFormat::acp:
        return acp_body(problem);
    case HttpErrorFormat::ucp:
        return ucp_body(problem);
    }
    pg_unreachable();
}

Jsonb *echo_headers(const char *key) {
    JsonBuilder headers = JsonBuilder::object();
    headers.add_member(core::kKeyField, key);
    return headers.finish_object();
}

} // namespace idem
