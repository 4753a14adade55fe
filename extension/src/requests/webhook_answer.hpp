// The types that idem_webhook_receive returns: idem_webhook_outcome and idem_webhook_answer of sql/requests/webhooks.sql.
#pragma once

#include "server/row_answer.hpp"

namespace idem {

enum class WebhookOutcome { accepted, duplicate, stale, invalid };

inline constinit EnumType webhook_outcome_enum = {
    "idem_webhook_outcome", {"accepted", "duplicate", "stale", "invalid"}, 4, InvalidOid, {}, 0}; // by WebhookOutcome

inline constexpr AnswerType webhook_answer_type = {"idem_webhook_answer", &webhook_outcome_enum, 2, {InvalidOid, TEXTOID}};

} // namespace idem
