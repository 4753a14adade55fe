#include "core/key_state.hpp"

namespace idem::core {

namespace {

bool lease_is_live(const KeyFacts &key, Micros now) { return key.state == State::in_progress && key.lease_until > now; }

ClaimDecision decide_in_progress(const KeyFacts &key, const ClaimRequest &request) {
    if (request.leased && key.same_owner)
        return {Outcome::acquired, ClaimWrite::renew};
    if (lease_is_live(key, request.now))
        return {Outcome::in_flight, ClaimWrite::none};
    if (key.manual_policy)
        return {Outcome::in_doubt, ClaimWrite::mark_in_doubt};
    return {Outcome::taken_over, ClaimWrite::next_attempt};
}

} // namespace

bool is_expired(const KeyFacts &key, Micros now) {
    if (key.expires_at > now || key.state == State::in_doubt || lease_is_live(key, now))
        return false;
    // Under the manual policy an expired lease means in doubt, even when no call has recorded that yet.
    return !(key.state == State::in_progress && key.manual_policy);
}

bool is_response_expired(const KeyFacts &key, Micros completed_at, Micros response_ttl, Micros now) {
    return key.state == State::completed && completed_at <= now && now - completed_at >= response_ttl;
}

ClaimDecision decide_claim(const KeyFacts &key, const ClaimRequest &request) {
    if (is_expired(key, request.now))
        return {Outcome::acquired, ClaimWrite::restart};
    if (key.own_transaction) {
        if (key.state == State::completed && !key.has_fence)
            return {Outcome::completed, ClaimWrite::none};
        // A lease that is over may be another's: idem_release has given a claim that took it over back.
        if (lease_is_live(key, request.now) && !(request.leased && key.same_owner))
            return {Outcome::in_flight, ClaimWrite::none};
    }
    if (key.fingerprints_differ)
        return {Outcome::mismatch, ClaimWrite::none};
    switch (key.state) {
    case State::in_progress:
        return decide_in_progress(key, request);
    case State::in_doubt:
        return {Outcome::in_doubt, ClaimWrite::none};
    case State::released:
        return {Outcome::acquired, ClaimWrite::next_attempt};
    case State::completed:
        break;
    }
    return {Outcome::completed, ClaimWrite::none};
}

ChangeDecision decide_change(const HolderFacts &key, Change change) {
    if (!key.fence_given) {
        const bool is_own_claim = key.own_transaction && key.state == State::completed && !key.has_fence;
        if (is_own_claim && change == Change::complete)
            return ChangeDecision::attach;
        return is_own_claim && change == Change::release && !key.completed_by_call ? ChangeDecision::apply
                                                                                   : ChangeDecision::stale;
    }
    if (!key.fence_matches)
        return ChangeDecision::stale;
    switch (key.state) {
    case State::in_progress:
        return ChangeDecision::apply;
    case State::in_doubt:
        return change == Change::complete ? ChangeDecision::apply : ChangeDecision::stale;
    case State::completed:
        return change == Change::complete && key.same_response ? ChangeDecision::no_op : ChangeDecision::stale;
    case State::released:
        break;
    }
    return ChangeDecision::stale;
}

StepDecision decide_step(const StepFacts &step) {
    switch (step.state) {
    case StepState::absent:
        return StepDecision::write;
    case StepState::intended:
        return step.output_given ? StepDecision::write : StepDecision::keep;
    case StepState::done:
        break;
    }
    return !step.output_given || step.same_output ? StepDecision::keep : StepDecision::conflict;
}

} // namespace idem::core
