// idem_consume: the inbox of a message consumer. A message is a key, of the scope "inbox" unless the call says otherwise, which
// is claimed in the transaction that processes the message.
#include "keys/claim.hpp"
#include "keys/composite_key.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { consumer, message_id, ttl, scope };
};

const text *nonempty_text(FunctionCallInfo fcinfo, int arg, const char *name) {
    const text *value = required_text(fcinfo, arg, name);
    if (VARSIZE_ANY_EXHDR(value) == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be empty", name)));
    return value;
}

} // namespace

SQL_FUNCTION(idem_consume) {
    ClaimRequest request{};
    request.function = "idem_consume()";
    request.key = composite_key(nonempty_text(fcinfo, Argument::consumer, "consumer"),
                                nonempty_text(fcinfo, Argument::message_id, "message_id"));
    check_key(request.key, "consumer with message_id");
    request.scope = PG_ARGISNULL(Argument::scope) ? cstring_to_text("inbox") : scope_argument(fcinfo, Argument::scope);
    apply_policy(&request, scope_policy(request.scope), optional_interval(fcinfo, Argument::ttl));
    request.waits_for_commit = true;
    const Claimed claimed = claim_key(request);
    raise_if_held(claimed, request.key);
    PG_RETURN_BOOL(is_granted(claimed.outcome));
}
