// idem_begin: a claim with every option, answered by a ticket.
#include "keys/claim.hpp"
#include "keys/ticket.hpp"
#include "server/arguments.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { key, fingerprint, ttl, lease, owner, wait, scope };
};

} // namespace

SQL_FUNCTION(idem_begin) {
    ClaimRequest request{};
    request.wants_row = true;
    request.function = "idem_begin()";
    request.key = key_argument(fcinfo, Argument::key);
    request.scope = scope_argument(fcinfo, Argument::scope);
    request.fingerprint = fingerprint_argument(fcinfo, Argument::fingerprint);
    request.owner = owner_argument(fcinfo, Argument::owner);
    apply_policy(&request, scope_policy(request.scope), optional_interval(fcinfo, Argument::ttl));
    if (!PG_ARGISNULL(Argument::lease))
        request.lease = lease_of(PG_GETARG_INTERVAL_P(Argument::lease), "lease");
    request.records_doubt = true;
    request.wait_until = wait_argument(fcinfo, Argument::wait);
    const Claimed claimed = claim_key(request);
    expect_work_after_claim(fcinfo, request, claimed);
    return make_ticket(fcinfo, claimed);
}
