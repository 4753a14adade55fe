// idem_ticket: what idem_begin and idem_execute answer.
#pragma once

#include "keys/claim.hpp"

namespace idem {

// The ticket as a composite value.
Datum make_ticket(const Claimed &claimed);

// The same for work that is already done: the ticket carries its response, also one too large to be stored.
Datum make_ticket(const Claimed &claimed, const Jsonb *response, bool omitted);

// A span of time as an interval of that many microseconds.
Datum interval_of(core::Micros span);

} // namespace idem
