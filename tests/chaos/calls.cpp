#include "calls.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace chaos {

namespace {

Value interval(Nanoseconds span) { return span == 0 ? Value() : Value(std::to_string(span / kMicrosecond) + " microseconds"); }

Value unless_empty(const std::string &text) { return text.empty() ? Value() : Value(text); }

Value fence_of(const Step &step) { return step.fence == 0 ? Value() : Value(std::to_string(step.fence)); }

std::string id_object(const std::string &name) { return "{\"id\": \"" + name + "\"}"; }

std::optional<std::int64_t> number(const Value &text) {
    return text ? std::optional<std::int64_t>(std::stoll(*text)) : std::nullopt;
}

bool is_any_of(std::string_view what, std::initializer_list<std::string_view> those) {
    return std::find(those.begin(), those.end(), what) != those.end();
}

} // namespace

Question question_of(const Step &step, const Manner &manner) {
    switch (step.call) {
    case Call::claim:
        return {"SELECT idem_claim($1, $2, $3)", {step.key, interval(step.retention), step.scope}};
    case Call::try_claim:
        return {"SELECT idem_try_claim($1, $2, $3)", {step.key, interval(step.retention), step.scope}};
    case Call::begin:
        return {"SELECT outcome, fence, attempt, response, steps "
                "FROM idem_begin($1, CASE WHEN $2 <> '' THEN idem_fingerprint_text($2) END, $3, $4, $5, $6, $7)",
                {step.key, unless_empty(step.fingerprint), interval(step.retention), interval(step.lease),
                 unless_empty(step.owner), manner.wait, step.scope}};
    case Call::complete:
        return {"SELECT idem_complete($1, $2, NULL, $3, $4)",
                {step.key, unless_empty(step.response), fence_of(step), step.scope}};
    case Call::release:
        return {"SELECT idem_release($1, $2, $3)", {step.key, fence_of(step), step.scope}};
    case Call::renew:
        return {"SELECT idem_renew($1, $2, $3)", {step.key, fence_of(step), interval(step.lease)}};
    case Call::step:
        return {"SELECT idem_step($1, $2, $3, $4)", {step.key, fence_of(step), step.step_name, unless_empty(step.response)}};
    case Call::lookup:
        return {"SELECT state, attempt, response, steps FROM idem_lookup($1, $2)", {step.key, step.scope}};
    case Call::forget:
        return {"SELECT idem_forget($1, $2)", {step.key, step.scope}};
    case Call::redeem:
        return {"SELECT idem_token_redeem($1)", {manner.token}};
    case Call::lock:
        return {"SELECT idem_lock($1, $2, $3, $4)", {step.key, interval(step.lease), unless_empty(step.owner), manner.wait}};
    case Call::renew_lock:
        return {"SELECT idem_lock_renew($1, $2, $3)", {step.key, fence_of(step), interval(step.lease)}};
    case Call::unlock:
        return {"SELECT idem_unlock($1, $2)", {step.key, fence_of(step)}};
    case Call::assert_fence:
        return {"SELECT idem_assert_fence($1, $2)", {step.key, fence_of(step)}};
    case Call::transition:
        return {"SELECT outcome, state FROM idem_transition('chaos_orders', $1, NULL, $2)",
                {id_object(step.key), step.to_state}};
    case Call::adjust:
        return {"SELECT outcome, value FROM conditional_adjust('chaos_stock', $1, 'stock', $2)",
                {id_object(step.key), std::to_string(step.delta)}};
    case Call::publish:
        return {"SELECT idem_publish('chaos', jsonb_build_object('dedup_id', $1::text), dedup_id => $1)", {step.key}};
    case Call::sweep:
        return {"CALL idem_sweep()", {}};
    }
    return {};
}

Question question_of_batch(const std::vector<Step> &claims) {
    std::string keys;
    for (const Step &claim : claims)
        keys += (keys.empty() ? "{" : ",") + claim.key;
    return {"SELECT idem_claim_many($1, $2, $3)", {keys + "}", interval(claims.front().retention), claims.front().scope}};
}

namespace {

// False: there is no answer, or it is an error.
bool take_success(Step *step, const Answer &answer) {
    step->sqlstate = answer.sqlstate;
    if (answer.lost && answer.sqlstate.empty())
        step->received = kNever;
    return answer.ok();
}

} // namespace

void take_answer_of_batch(std::vector<Step> *claims, const Answer &answer) {
    std::set<std::string> granted;
    for (const auto &row : answer.rows)
        granted.insert(row[0].value_or(""));
    for (Step &claim : *claims)
        if (take_success(&claim, answer))
            claim.outcome.assign(1, granted.contains(claim.key) ? 't' : 'f');
}

void take_answer(Step *step, const Answer &answer) {
    if (!take_success(step, answer))
        return;
    switch (step->call) {
    case Call::begin:
        step->outcome = answer.field().value_or("");
        step->fence_given = number(answer.field(1));
        if (answer.field(2))
            step->attempt = std::stoi(*answer.field(2));
        step->response_given = answer.field(3);
        if (is_granted(*step))
            step->steps_given = answer.field(4).value_or("");
        break;
    case Call::lookup:
        step->outcome = answer.field().value_or("");
        if (answer.field(1))
            step->attempt = std::stoi(*answer.field(1));
        step->response_given = answer.field(2);
        if (!step->outcome.empty())
            step->steps_given = answer.field(3).value_or("");
        break;
    case Call::lock:
        step->fence_given = number(answer.field());
        break;
    case Call::transition:
        step->outcome = answer.field().value_or("");
        step->response_given = answer.field(1);
        break;
    case Call::adjust:
        step->outcome = answer.field().value_or("");
        step->value_given = number(answer.field(1));
        break;
    case Call::publish:
        step->value_given = number(answer.field());
        break;
    default:
        step->outcome = answer.field().value_or("");
    }
}

bool is_farewell(const std::string &sqlstate) { return is_any_of(sqlstate, {"57P01", "57P02", "57P03"}); }

bool is_foreseen(const Step &step, const std::string &sqlstate) {
    // 40P01: several keys in one transaction. 57014: canceled.
    if (is_farewell(sqlstate) || is_any_of(sqlstate, {"40001", "40P01", "57014"}))
        return true;
    switch (step.call) {
    case Call::claim:
        return sqlstate == "ID005";
    case Call::complete:
    case Call::release:
    case Call::renew:
    case Call::step:
    case Call::assert_fence:
        return sqlstate == "ID001";
    default:
        return false;
    }
}

bool is_granted(const Step &step) {
    return step.sqlstate.empty() && is_any_of(step.outcome, {"t", "acquired", "taken_over", "accepted"});
}

} // namespace chaos
