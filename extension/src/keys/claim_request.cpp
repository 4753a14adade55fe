#include "keys/claim_request.hpp"

#include "server/arguments.hpp"

namespace idem {

core::Micros retention(const ScopePolicy &policy, const Interval *explicit_ttl) {
    const core::Micros span = explicit_ttl != nullptr ? positive_span_of(explicit_ttl, "ttl") : policy.ttl;
    return policy.keep_forever ? core::kForever : span;
}

void apply_policy(ClaimRequest *request, const ScopePolicy &policy, const Interval *explicit_ttl) {
    request->ttl = retention(policy, explicit_ttl);
    request->ttl_is_given = explicit_ttl != nullptr;
    request->manual_policy = policy.manual_on_lease_expiry;
}

} // namespace idem
