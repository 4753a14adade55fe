// What the signature of a request covers: one line of JSON, an array of
//   "idem1", the key id, the time of signing (microseconds since 1970), the nonce, the parameters
// without white space, members of objects sorted by code point, strings as RFC 8785 writes them, numbers in plain decimal
// notation without superfluous zeros. RFC 8785 itself sorts by UTF-16 unit, and makes doubles of numbers: 2^53 and 2^53 + 1
// would have one message. The array tells where each part ends, so no two requests have one.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"

namespace idem {

struct SignedRequest {
    Jsonb *params; // an object
    const text *key_id;
    core::Micros signed_at; // finite
    const text *nonce;
};

// A number of a few characters can be a very long one in plain decimal notation: what anybody may send must not take all
// memory.
inline constexpr int kMostMessageBytes = 1024 * 1024;

// Whether there is a number for this time.
bool can_be_signed(core::Micros signed_at);

// How deep objects and arrays may be nested, the outermost object included: senders choose the depth, and the stack is finite.
inline constexpr int kDeepestParams = 100;

// Why there is no message: longer than kMostMessageBytes, nested deeper than kDeepestParams, or text that has no form in UTF-8.
enum class MessageFault { none, too_large, too_deep, no_text };

// In UTF-8, whatever the server's encoding. Raises nothing that a sender could bring about. REQUIRES: can_be_signed.
MessageFault request_message(const SignedRequest &request, StringInfoData *message);

} // namespace idem
