// What the row of a key says: composing it and changing it. Nothing here reads or writes a table.
#pragma once

#include "keys/claim_request.hpp"
#include "storage/key_store.hpp"

namespace idem {

// What the state table asks, of a stored row and the request for its key.
core::KeyFacts claim_facts(const ClaimRequest &request, const Probe &found, const KeyRow &row);

// The row of a key that has none, or whose last one no longer counts; then `fence_floor` is the last fence it had.
KeyRow new_key_row(const ClaimRequest &request, core::Micros now, int64 fence_floor = 0);

// The row that a claim writes over `stored`.
KeyRow changed_key_row(const KeyRow &stored, core::ClaimWrite write, const ClaimRequest &request, core::Micros now);

struct Response {
    const Jsonb *body; // or nullptr
    const Jsonb *rest; // what to store of a body that is too large, or nullptr
    bool has_status_code;
    int32 status_code;
};

// Bytes of a response as counted against the limit: the jsonb value, not compressed.
int response_size(const Jsonb *body);

// Turns `row` into a completed one with this response; over the scope's limit the body is left out, with a warning.
void set_completed(KeyRow *row, const Response &response, const ScopePolicy &policy, core::Micros now);

// Turns `row` into a released one: free for the next attempt.
void set_released(KeyRow *row);

} // namespace idem
