// The secrets that requests are signed with: rows of idem_api_keys. A key id has one secret that signs. Its earlier secrets
// verify for as long as the operator has chosen. The operator keeps a copy of them elsewhere.
#pragma once

#include "core/key_state.hpp"
#include "storage/secret_store.hpp"

namespace idem {

extern Member api_keys;

inline constexpr int kMaxKeyIdBytes = 255;

// Finds the n-th secret, from 0 on, that verifies for this key id at `now`. Returns false when there is none.
bool find_api_secret(const text *key_id, int n, core::Micros now, Secret *secret);

// Sets the secret of the key id; earlier ones verify until `old_until`. Waits for another transaction that has changed keys,
// and makes later changes wait for the end of this transaction. Messages name `function`.
void set_api_secret(const text *key_id, const bytea *secret, core::Micros now, core::Micros old_until, const char *function);

// Deletes all secrets of the key id. Returns false when it had none. Waits as set_api_secret does.
bool drop_api_key(const text *key_id, const char *function);

} // namespace idem
