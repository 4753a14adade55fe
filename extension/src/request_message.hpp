// What the signature of a request covers: one line of JSON, an array of
//   "idem1", the key id, the time of signing (microseconds since 1970), the nonce, the parameters
// without white space, members of objects sorted by code point, strings as RFC 8785 writes them, numbers in plain decimal
// notation without superfluous zeros. Within what a double holds exactly, that is RFC 8785 for all but the largest and the
// smallest numbers. The array tells where each part ends, so no two requests have one message.
#pragma once

#include "core/key_state.hpp"
#include "pg.hpp"

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

// In UTF-8, whatever the server's encoding. False: it would be longer than kMostMessageBytes. REQUIRES: can_be_signed.
bool request_message(const SignedRequest &request, StringInfoData *message);

} // namespace idem
