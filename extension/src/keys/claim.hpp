// Claiming a key: the loop around the state table that idem_claim, idem_try_claim, idem_claim_many, idem_begin and
// idem_execute share.
#pragma once

#include "keys/claim_request.hpp"
#include "storage/key_record.hpp"
#include "storage/key_table.hpp"

namespace idem {

struct Claimed {
    core::Outcome outcome;
    bool has_row;
    KeyRow row;         // has_row: the row that the outcome rests on, as it is after the call
    KeyVersion version; // has_row: its location
    core::Micros at;    // when the outcome was decided
    bool is_own;        // has_row: the calling transaction had written the row before
};

// Gives the request the retention of the ring that the scope lives in. Raises 22023 if the call gives another one, 0A000 for a
// lease.
void settle_retention(const KeyTable &table, ClaimRequest *request);

// Claims a key in an open table, or opens the table of `request.space` for the call. The second form counts the outcome for
// idem_stats. With the first form, the caller counts the outcome that it returns.
Claimed claim_key(const KeyTable &table, const ClaimRequest &request);
Claimed claim_key(const ClaimRequest &request);

// Counts the outcome for idem_stats.
void count_outcome(const ClaimRequest &request, core::Outcome outcome);

// Whether the outcome makes the caller do the work.
inline bool is_granted(core::Outcome outcome) {
    return outcome == core::Outcome::acquired || outcome == core::Outcome::taken_over;
}

// Calls expect_work_after (server/transaction_block.hpp) if the claim was granted and ends with the transaction. REQUIRES: the
// caller completes nothing itself.
void expect_work_after_claim(FunctionCallInfo fcinfo, const ClaimRequest &request, const Claimed &claimed);

// Raises ID005 when the key is in flight or in doubt, for functions that cannot return these outcomes.
void raise_if_held(const Claimed &claimed, const text *key);

} // namespace idem
