// idem_ticket: the result of idem_begin and idem_execute.
#pragma once

#include "keys/claim.hpp"

namespace idem {

// The ticket as a composite value.
Datum make_ticket(FunctionCallInfo fcinfo, const Claimed &claimed);

// The ticket of work that this call has done. It has the response, even one that was too large to store.
Datum make_ticket(FunctionCallInfo fcinfo, const Claimed &claimed, const Jsonb *response, bool omitted);

} // namespace idem
