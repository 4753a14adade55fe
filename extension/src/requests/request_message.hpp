// The message that the signature of a request covers: one line of JSON, an array of
//   "idem1", the key id, the time of signing (microseconds since 1970), the nonce, the parameters
// without white space, members of objects sorted by code point, strings as RFC 8785 writes them, numbers in plain decimal
// notation without superfluous zeros. RFC 8785 itself sorts by UTF-16 unit and turns numbers into doubles, so 2^53 and 2^53 + 1
// would have the same message. The array shows where each part ends, so no two requests have the same message.
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

// A number of a few characters can be very long in plain decimal notation. This bounds the memory that a sender can make the
// server use.
inline constexpr int kMaxMessageBytes = 1024 * 1024;

// Whether the time is finite and can be written in microseconds since 1970.
bool can_be_signed(core::Micros signed_at);

// The limit for nested objects and arrays, including the outermost object. The sender chooses the depth, and the stack is
// finite.
inline constexpr int kMaxParamsDepth = 100;

// Why there is no message: longer than kMaxMessageBytes, nested deeper than kMaxParamsDepth, or text that has no form in UTF-8.
enum class MessageFault { none, too_large, too_deep, no_text };

// Writes the message in UTF-8, whatever the server's encoding. No request that a sender can forge raises an error. REQUIRES:
// can_be_signed.
MessageFault request_message(const SignedRequest &request, StringInfoData *message);

} // namespace idem
