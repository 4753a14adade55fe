// idem_http_begin: whether to run, replay or reject an HTTP request. idem_http_key: the key in its header.
#include "core/http_key.hpp"
#include "core/http_message.hpp"
#include "http/http_answer.hpp"
#include "http/http_arguments.hpp"
#include "http/http_response.hpp"
#include "keys/claim.hpp"
#include "keys/fingerprint.hpp"
#include "server/arguments.hpp"
#include "server/utf8.hpp"

namespace {

using namespace idem;

static_assert(core::kMaxHttpKeyBytes == kMaxKeyBytes);

struct Argument {
    enum { scope, method, route, idempotency_key, body, body_bytes, lease, wait, ttl };
};

struct HttpAnswerColumn {
    enum { action, status, headers, body, body_bytes, fence, count };
};

struct Answer {
    Datum values[HttpAnswerColumn::count] = {};
    bool nulls[HttpAnswerColumn::count] = {true, true, true, true, true, true};

    explicit Answer(const char *action) { set(HttpAnswerColumn::action, CStringGetTextDatum(action)); }
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

const text *parse_key(FunctionCallInfo fcinfo, int arg) {
    core::HttpKey key;
    if (!core::parse_http_key(view_of(PG_GETARG_TEXT_PP(arg)), &key))
        return nullptr;
    return cstring_to_text_with_len(key.bytes, static_cast<int>(key.size));
}

// No method contains a blank and no text a zero byte, so different requests have different bytes.
const bytea *request_fingerprint(const text *method, const text *route, const HttpBody &body) {
    using namespace std::string_view_literals;
    const std::string_view pieces[] = {view_of(method), " "sv, as_utf8(route), "\0"sv, bytes_of(body)};
    return fingerprint_of_pieces(pieces, lengthof(pieces));
}

Datum reject(FunctionCallInfo fcinfo, const text *scope, HttpRefusal refusal, int64 retry_after = 0) {
    struct ProblemText {
        const char *code;
        const char *detail;
    };
    constexpr ProblemText kTexts[kHttpRefusals] = {
        {"key_missing", "The request needs an Idempotency-Key header field."},
        {"key_malformed", "The Idempotency-Key header field is not one string of 1 to 1024 printable ASCII characters."},
        {"mismatch", "The Idempotency-Key was used before, with another method, route or body."},
        {"in_flight", "The request with this Idempotency-Key is being processed. Repeat it later."},
        {"in_doubt", "What became of the request with this Idempotency-Key is not known yet. An operator has to decide."},
    };
    const ProblemText &text = kTexts[static_cast<int>(refusal)];
    const HttpPolicy policy = http_policy(scope);
    const HttpProblem problem{policy.statuses[static_cast<int>(refusal)], text.code, text.detail, retry_after,
                              policy.documentation_url};
    const Jsonb *body = problem_body(problem);
    Answer answer("reject");
    answer.set(HttpAnswerColumn::status, Int32GetDatum(problem.status));
    answer.set(HttpAnswerColumn::headers, PointerGetDatum(problem_headers(problem)));
    answer.set_body(
        {cstring_to_text(JsonbToCString(nullptr, const_cast<JsonbContainer *>(&body->root), VARSIZE(body))), nullptr});
    return composite(fcinfo, answer);
}

// idem_complete stores any number as the code, and no response can have some of them.
int32 replayed_status(const KeyRow &row) {
    constexpr int32 kOk = 200, kNoContent = 204;
    if (row.is_null(KeyColumn::status_code))
        return row.is_null(KeyColumn::response) && row.is_null(KeyColumn::response_omitted) ? kNoContent : kOk;
    const int32 code = DatumGetInt32(row.get(KeyColumn::status_code));
    return core::is_final_http_status(code) ? code : kOk;
}

Datum replay(FunctionCallInfo fcinfo, const KeyRow &row) {
    Jsonb *stored = row.is_null(KeyColumn::response) ? nullptr : DatumGetJsonbP(row.get(KeyColumn::response));
    const ReplayedResponse response = replayed_response(stored);
    Answer answer("replay");
    answer.set(HttpAnswerColumn::status, Int32GetDatum(replayed_status(row)));
    answer.set(HttpAnswerColumn::headers, PointerGetDatum(response.headers));
    answer.set_body(response.body);
    return composite(fcinfo, answer);
}

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

Datum answer_to(FunctionCallInfo fcinfo, const text *scope, const Claimed &claimed) {
    switch (outcome_for_request(claimed)) {
    case core::Outcome::acquired:
    case core::Outcome::taken_over: {
        Answer answer("run");
        if (!claimed.row.is_null(KeyColumn::fence))
            answer.set(HttpAnswerColumn::fence, claimed.row.get(KeyColumn::fence));
        return composite(fcinfo, answer);
    }
    case core::Outcome::completed:
        return replay(fcinfo, claimed.row);
    case core::Outcome::mismatch:
        return reject(fcinfo, scope, HttpRefusal::mismatch);
    case core::Outcome::in_flight:
        return reject(fcinfo, scope, HttpRefusal::in_flight, retry_after(claimed));
    case core::Outcome::in_doubt:
        return reject(fcinfo, scope, HttpRefusal::in_doubt);
    }
    pg_unreachable();
}

} // namespace

SQL_FUNCTION(idem_http_begin) {
    ClaimRequest request{};
    request.wants_row = true;
    request.function = "idem_http_begin()";
    request.scope = http_scope_argument(fcinfo, Argument::scope);
    const text *method = method_argument(fcinfo);
    const text *route = required_text(fcinfo, Argument::route, "route");
    const HttpBody body = http_body_argument(fcinfo, Argument::body);
    apply_policy(&request, scope_policy(request.scope), optional_interval(fcinfo, Argument::ttl));
    if (!PG_ARGISNULL(Argument::lease))
        request.lease = lease_of(PG_GETARG_INTERVAL_P(Argument::lease), "lease");
    request.wait_until = wait_argument(fcinfo, Argument::wait);
    if (PG_ARGISNULL(Argument::idempotency_key)) {
        const HttpPolicy policy = http_policy(request.scope);
        if (policy.runs_without_key || !core::names_http_method(policy.keyed_methods, view_of(method)))
            return composite(fcinfo, Answer("run"));
        return reject(fcinfo, request.scope, HttpRefusal::missing_key);
    }
    request.key = parse_key(fcinfo, Argument::idempotency_key);
    if (request.key == nullptr)
        return reject(fcinfo, request.scope, HttpRefusal::malformed_key);
    request.fingerprint = request_fingerprint(method, route, body);
    request.records_doubt = true;
    const Claimed claimed = claim_key(request);
    expect_work_after_claim(fcinfo, request, claimed);
    return answer_to(fcinfo, request.scope, claimed);
}

SQL_FUNCTION(idem_http_key) {
    const text *key = parse_key(fcinfo, 0);
    if (key == nullptr)
        PG_RETURN_NULL();
    PG_RETURN_TEXT_P(key);
}
