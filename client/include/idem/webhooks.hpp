// Webhooks: verifies that a webhook is genuine, fresh and new (docs/webhooks.md).
#pragma once

#include <string>

#include <idem/http.hpp>
#include <idem/target.hpp>

namespace idem {

/// A request as received.
struct webhook {
    std::string source;   ///< the name that the operator gave; any text, so it may be part of the address
    http_headers headers; ///< all of them, with names in any case
    std::string body;     ///< the bytes, before anything has parsed them
};

enum class webhook_outcome {
    accepted,  ///< genuine, fresh and new: do the work in this transaction, and answer 2xx after the commit
    duplicate, ///< it was accepted before, and that has committed: answer 2xx
    stale,     ///< correctly signed, but too long ago or too far ahead: answer 4xx
    invalid    ///< not signed with a secret of its source: answer 4xx
};

/// As the SQL functions spell it: "accepted".
const char *name(webhook_outcome outcome) noexcept;

struct webhook_answer {
    webhook_outcome outcome;
    std::string message_id{}; ///< names the webhook among those of its source; empty when invalid
};

/// Verifies a webhook and claims its id, which a rollback frees again. Waits for another transaction that is processing the
/// same webhook. Call it in the transaction that does the work: on a client the claim commits alone, and the webhook takes
/// effect at most once. One round trip; on a client a lost reply throws outcome_unknown. Nothing in the headers and the body
/// makes it throw; fields with bytes that are not printable ASCII are left out.
webhook_answer receive_webhook(const target &at, const webhook &received);

} // namespace idem
