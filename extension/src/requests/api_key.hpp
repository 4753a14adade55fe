// The secrets that requests are signed with: rows of idem_api_keys, named by their key id.
#pragma once

#include "requests/signing_secret.hpp"

namespace idem {

extern Member api_keys;
extern SecretStore api_key_store;

// Finds the n-th secret, from 0 on, that verifies for this key id at `now`. Returns false when there is none.
bool find_api_secret(const text *key_id, int n, core::Micros now, Secret *secret);

} // namespace idem
