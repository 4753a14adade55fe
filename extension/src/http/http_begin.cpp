// idem_http_begin: whether to run, replay or reject an HTTP request. idem_http_key: the key in its header.
#include "core/http_key.hpp"
#include "core/http_message.hpp"
#include "http/http_answer.hpp"
#include "http/http_arguments.hpp"
#include "http/http_fingerprint.hpp"
#include "http/http_problem.hpp"
#include "http/http_response.hpp"
#include "keys/claim.hpp"
#include "server/arguments.hpp"

#include <algorithm>

namespace {

using namespace idem;

static_assert(core::kMaxHttpKeyBytes == kMaxKeyBytes);

struct Argument {
    enum { scope, method, route, idempotency_key, body, body_bytes, lease, wait, ttl, fingerprint, content_type };
};

struct HttpAnswerColumn {
    enum { action, status, headers, body, body_bytes, fence, code, retryable, count };
};

struct Answer {
    Datum values[HttpAnswerColumn::count] = {};
    bool nulls[HttpAnswerColumn::count];

    explicit Answer(const char *action) {
        std::fill(std::begin(nulls), std::end(nulls), true);
        set(HttpAnswerColumn::action, CStringGetTextDatum(action));
    }
    void set(int column, Datum value) {
        values[column] = value;
        nulls[column] = false;
    }
    void set_body(const HttpBody &body) {
        if (body.is_absent())
            return;
        if (body.as_text != nullptr)
            set(HttpAnswerColumn::body, PointerGetDatum(body.as_text));
        set(HttpAnswerColumn::body_bytes, PointerGetDatum(bytea_of(bytes_of(body))));
    }
};

Datum composite(FunctionCallInfo fcinfo, const Answer &answer) {
    static_assert(http_answer_type.count == HttpAnswerColumn::count);
    return make_composite(fcinfo, http_answer_type, answer.values, answer.nulls);
}

std::string_view view_of(const text *string) { return {VARDATA_ANY(string), VARSIZE_ANY_EXHDR(string)}; }

const text *method_argument(FunctionCallInfo fcinfo) {
    const text *given = required_text(fcinfo, Argument::method, "method");
    if (!core::is_http_token(view_of(given)))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("\"%s\" is no HTTP method", text_to_cstring(given)),
                        errhint("Give the method of the request, such as 'POST'.")));
    return given;
}

HttpRequest request_arguments(FunctionCallInfo fcinfo) {
    HttpRequest request{};
    request.method = method_argument(fcinfo);
    request.route = required_text(fcinfo, Argument::route, "route");
    request.body = http_body_argument(fcinfo, Argument::body);
    request.content_type = optional_text(fcinfo, Argument::content_type);
    request.digest = fingerprint_argument(fcinfo, Argument::fingerprint);
    if (request.digest != nullptr && !request.body.is_absent())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("body and fingerprint cannot be given together"),
                        errhint("The fingerprint stands for the body: give NULL for it.")));
    return request;
}

// idem_complete stores any number as the code, and no response can have some of them.
int32 replayed_status(const KeyRow &row) {
    constexpr int32 kOk = 200, kNoContent = 204;
    if (row.is_null(KeyColumn::status_code))
        return row.is_null(KeyColumn::response) && row.is_null(KeyColumn::response_omitted) ? kNoContent : kOk;
    const int32 code = DatumGetInt32(row.get(KeyColumn::status_code));
    return core::is_final_http_status(code) ? code : kOk;
}

// What is sent to the client of one request.
class Responder {
  public:
    Responder(FunctionCallInfo fcinfo, const text *scope) : fcinfo_(fcinfo), scope_(scope) {}

    // From here on, each response has the key, where the scope says so.
    void echo(const text *field) { echoed_ = field; }

    Datum run(bool is_claimed, const KeyRow *row = nullptr) const {
        Answer answer("run");
        if (!is_claimed)
            answer.set(HttpAnswerColumn::code, CStringGetTextDatum("unkeyed"));
        if (row != nullptr && !row->is_null(KeyColumn::fence))
            answer.set(HttpAnswerColumn::fence, row->get(KeyColumn::fence));
        if (const char *key = echoed_key())
            answer.set(HttpAnswerColumn::headers, PointerGetDatum(echo_headers(key)));
        return composite(fcinfo_, answer);
    }

    Datum replay(const KeyRow &row) const {
        Jsonb *stored = row.is_null(KeyColumn::response) ? nullptr : DatumGetJsonbP(row.get(KeyColumn::response));
        const ReplayedResponse response = replayed_response(stored, !row.is_null(KeyColumn::response_omitted), echoed_key());
        Answer answer("replay");
        answer.set(HttpAnswerColumn::status, Int32GetDatum(replayed_status(row)));
        answer.set(HttpAnswerColumn::headers, PointerGetDatum(response.headers));
        answer.set_body(response.body);
        return composite(fcinfo_, answer);
    }

    Datum reject(HttpRefusal refusal, int64 retry_after = 0) const {
        const HttpPolicy policy = http_policy(scope_);
        const HttpProblem problem{refusal, policy.statuses[static_cast<int>(refusal)], retry_after, policy.documentation_url,
                                  echoed_key()};
        const Jsonb *body = problem_body(problem, policy.error_format);
        Answer answer("reject");
        answer.set(HttpAnswerColumn::status, Int32GetDatum(problem.status));
        answer.set(HttpAnswerColumn::headers, PointerGetDatum(problem_headers(problem, policy.error_format)));
        answer.set(HttpAnswerColumn::code, CStringGetTextDatum(problem_code(refusal)));
        answer.set(HttpAnswerColumn::retryable, BoolGetDatum(refusal == HttpRefusal::in_flight));
        answer.set_body(
            {cstring_to_text(JsonbToCString(nullptr, const_cast<JsonbContainer *>(&body->root), VARSIZE(body))), nullptr});
        return composite(fcinfo_, answer);
    }

  private:
    const char *echoed_key() const {
        return echoed_ != nullptr && http_policy(scope_).echoes_key ? text_to_cstring(echoed_) : nullptr;
    }

    FunctionCallInfo fcinfo_;
    const text *scope_;
    const text *echoed_ = nullptr;
};

// Whole seconds until the holder's lease ends; 1 if the end is not known.
int64 retry_after(const Claimed &claimed) {
    const core::Micros left = claimed.has_row ? claimed.row.time(KeyColumn::lease_until) - claimed.at : 0;
    return Max((left + USECS_PER_SEC - 1) / USECS_PER_SEC, int64{1});
}

// A key without a fingerprint was not claimed by a request. A request that sends such a key must not learn anything about it.
core::Outcome outcome_for_request(const Claimed &claimed) {
    const bool is_foreign = !is_granted(claimed.outcome) && claimed.has_row && claimed.row.is_null(KeyColumn::fingerprint);
    return is_foreign ? core::Outcome::mismatch : claimed.outcome;
}

Datum answer_to(const Responder &responder, const Claimed &claimed) {
    switch (outcome_for_request(claimed)) {
    case core::Outcome::acquired:
    case core::Outcome::taken_over:
        return responder.run(true, &claimed.row);
    case core::Outcome::completed:
        return responder.replay(claimed.row);
    case core::Outcome::mismatch:
        return responder.reject(HttpRefusal::mismatch);
    case core::Outcome::in_flight:
        return responder.reject(HttpRefusal::in_flight, retry_after(claimed));
    case core::Outcome::in_doubt:
        return responder.reject(HttpRefusal::in_doubt);
    }
    pg_unreachable();
}

// A second call for a request whose work has not ended would send the client an answer of its own making. A doubt was perhaps
// recorded by a call of this transaction that has rejected the request.
void refuse_open_key(const Claimed &claimed, const text *key) {
    if (is_granted(claimed.outcome) || claimed.outcome == core::Outcome::in_doubt || !claimed.has_row || !claimed.is_own ||
        claimed.row.is_null(KeyColumn::fingerprint) || !claimed.row.is_null(KeyColumn::completed_at))
        return;
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("key \"%s\" is already open in this transaction", text_to_cstring(key)),
                    errdetail("idem_http_begin() has answered \"run\" for it, and no response is stored yet."),
                    errhint("A middleware is probably mounted twice: mount it once.")));
}

} // namespace

SQL_FUNCTION(idem_http_begin) {
    ClaimRequest request{};
    request.wants_row = true;
    request.function = "idem_http_begin()";
    request.scope = http_scope_argument(fcinfo, Argument::scope);
    const HttpRequest given = request_arguments(fcinfo);
    apply_policy(&request, scope_policy(request.scope), optional_interval(fcinfo, Argument::ttl));
    if (!PG_ARGISNULL(Argument::lease))
        request.lease = lease_of(PG_GETARG_INTERVAL_P(Argument::lease), "lease");
    request.wait_until = wait_argument(fcinfo, Argument::wait);
    const HttpPolicy policy = http_policy(request.scope);
    Responder responder(fcinfo, request.scope);
    if (core::names_http_method(policy.ignored_methods, view_of(given.method)))
        return responder.run(false);
    const text *field = optional_text(fcinfo, Argument::idempotency_key);
    if (field == nullptr) {
        if (policy.runs_without_key || !core::names_http_method(policy.keyed_methods, view_of(given.method)))
            return responder.run(false);
        return responder.reject(HttpRefusal::missing_key);
    }
    request.key = http_key_in(field, policy.key_syntax);
    if (request.key == nullptr)
        return responder.reject(HttpRefusal::malformed_key);
    responder.echo(field);
    request.fingerprint = request_fingerprint(given, policy);
    request.records_doubt = true;
    const Claimed claimed = claim_key(request);
    refuse_open_key(claimed, request.key);
    expect_work_after_claim(fcinfo, request, claimed);
    return answer_to(responder, claimed);
}

SQL_FUNCTION(idem_http_key) {
    const text *field = optional_text(fcinfo, 0), *scope = optional_text(fcinfo, 1);
    if (field == nullptr)
        PG_RETURN_NULL();
    const auto syntax =
        scope == nullptr ? core::HttpKeySyntax::string_or_bare : http_policy(scope_argument(fcinfo, 1)).key_syntax;
    const text *key = http_key_in(field, syntax);
    if (key == nullptr)
        PG_RETURN_NULL();
    PG_RETURN_TEXT_P(key);
}
