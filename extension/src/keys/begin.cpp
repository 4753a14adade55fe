// idem_begin: claim with everything the answer can carry.
#include "keys/claim.hpp"
#include "keys/ticket.hpp"
#include "server/arguments.hpp"

namespace {

using namespace idem;

enum Argument { key, fingerprint, ttl, lease, owner, wait, scope };

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_begin);

PGDLLEXPORT Datum idem_begin(PG_FUNCTION_ARGS) {
    ClaimRequest request{};
    request.function = "idem_begin()";
    request.key = key_argument(fcinfo, key);
    request.scope = scope_argument(fcinfo, scope);
    request.fingerprint = fingerprint_argument(fcinfo, fingerprint);
    request.owner = optional_text(fcinfo, owner);
    apply_policy(&request, scope_policy(request.scope), optional_interval(fcinfo, ttl));
    if (!PG_ARGISNULL(lease))
        request.lease = positive_span_of(PG_GETARG_INTERVAL_P(lease), "lease");
    request.records_doubt = true;
    request.wait_until = wait_argument(fcinfo, wait);
    return make_ticket(claim_key(request));
}

} // extern "C"
