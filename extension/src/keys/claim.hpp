// Claiming a key: the loop around the state table that idem_claim, idem_try_claim, idem_claim_many, idem_begin and
// idem_execute share.
#pragma once

#include "keys/claim_request.hpp"
#include "storage/key_store.hpp"

namespace idem {

struct Claimed {
    core::Outcome outcome;
    bool has_row;
    KeyRow row;              // has_row: the row that the outcome rests on, as it is after the call
    ItemPointerData version; // has_row: where it is
    core::Micros at;         // when the outcome was decided
};

// Claims within an open table, or in one that is opened for it. Counted is the outcome of the latter, which answers a call by
// itself; who makes an answer of the former counts it.
Claimed claim_key(const KeyTable &table, const ClaimRequest &request);
Claimed claim_key(const ClaimRequest &request);

// For idem_stats.
void count_outcome(const ClaimRequest &request, core::Outcome outcome);

// Whether the outcome makes the caller the one who does the work.
inline bool is_granted(core::Outcome outcome) {
    return outcome == core::Outcome::acquired || outcome == core::Outcome::taken_over;
}

// ID005 for a caller whose answer has no room for "in flight" or "in doubt".
void raise_if_held(const Claimed &claimed, const text *key);

} // namespace idem
