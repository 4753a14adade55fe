// The row of a key: composing it and changing it. Nothing here reads or writes a table.
#pragma once

#include "keys/claim_request.hpp"
#include "storage/key_lookup.hpp"

namespace idem {

// The facts for the state table, from a stored row and the request for its key.
core::KeyFacts claim_facts(const ClaimRequest &request, const FoundRow &found, const KeyRow &row);

// The row of a key that has none, or whose last row no longer counts. In the second case `fence_floor` is the last row's fence.
KeyRow new_key_row(const ClaimRequest &request, core::Micros now, int64 fence_floor = 0);

// The row that a claim writes over `stored`.
KeyRow changed_key_row(const KeyRow &stored, core::ClaimWrite write, const ClaimRequest &request, core::Micros now);

struct Response {
    const Jsonb *body;     // or nullptr
    const Jsonb *fallback; // the part to store when the body is too large, or nullptr. Without a body: the caller omits it
    bool has_status_code;
    int32 status_code;
};

// The bytes of a response as the limit counts them: the jsonb value, not compressed.
int response_size(const Jsonb *body);

// Whether the response is within the scope's limit, and so can be replayed.
bool is_stored(const Response &response, const ScopePolicy &policy);

// The row, completed with this response. Its retention starts again, with the length that the claim gave it, unless it is in a
// ring. A body over the scope's limit is left out.
KeyRow completed_row(const KeyRow &stored, const Response &response, const ScopePolicy &policy, core::Micros now,
                     bool is_in_ring);

// Warns of a body that completed_row leaves out, unless the caller has omitted it.
void warn_unless_stored(const Response &response, const ScopePolicy &policy);

} // namespace idem
