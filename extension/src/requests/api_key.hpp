// The secrets of those who sign requests: rows of idem_api_keys. A key id has one secret to sign with, and those before it for
// as long as the operator said.
//
// They are kept as token secrets are (token_secret.hpp): written past the executor and past logical decoding, in a table
// without indexes and statistics, not dumped. The operator has them elsewhere.
#pragma once

#include "core/key_state.hpp"
#include "server/hmac.hpp"
#include "storage/member.hpp"

namespace idem {

extern Member api_keys;

inline constexpr int kMaxKeyIdBytes = 255;

struct ApiSecret {
    int size;
    uint8 bytes[kMostHmacKeyBytes];
};

// The n-th secret, from 0 on, that verifies for this key id at `now`; false when there is none (any more).
bool find_api_secret(const text *key_id, int n, core::Micros now, ApiSecret *secret);

// Gives the key id a secret; earlier ones verify until `old_until`. Whoever changes keys meanwhile waits for this transaction's
// end. `function`: for messages.
void set_api_secret(const text *key_id, const bytea *secret, core::Micros now, core::Micros old_until, const char *function);

// Takes all secrets of the key id away; false when it had none.
bool drop_api_key(const text *key_id, const char *function);

} // namespace idem
