// The outcome of verifying a signed request: idem_request_outcome of sql/requests/requests.sql.
#pragma once

#include "server/row_answer.hpp"

namespace idem {

enum class RequestOutcome { accepted, replayed, stale, invalid };

inline constinit EnumType request_outcome_enum = {
    "idem_request_outcome", {"accepted", "replayed", "stale", "invalid"}, 4, InvalidOid, {}, 0}; // by RequestOutcome

} // namespace idem
