// The secrets that tokens are signed with: rows of idem_token_secrets, one of which signs.
//
// A row never changes. Of the rows that were created in this database, the one with the greatest key id signs. Each of the
// others verifies until the last token that it could have signed has expired; the next rotation then deletes it. A row that was
// copied with its database (CREATE DATABASE … TEMPLATE) neither signs nor verifies, so that two databases do not accept each
// other's tokens.
#pragma once

#include "core/key_state.hpp"
#include "storage/secret_store.hpp"

namespace idem {

extern Member token_secrets;

inline constexpr core::Micros kMaxTokenTtl = 7 * USECS_PER_DAY;

struct TokenSecret {
    uint32 key_id;
    core::Micros max_expiry; // it has signed no token that expires later
    Secret secret;
};

// The secret to sign with. Creates the first one; later calls write nothing. Messages name `function`.
TokenSecret signing_secret(const char *function);

// Finds the n-th secret, from 0 on, with this key id. Returns false when there is none. A key id can have several secrets after
// an initial copy of logical replication from a database with the same OID.
bool find_secret(uint32 key_id, int n, TokenSecret *secret);

// Creates a new secret. Deletes the secrets whose tokens have all expired, or with `revoke` all others. Waits for another
// transaction that has rotated, and makes later rotations wait for the end of this transaction.
void rotate_secret(bool revoke, const char *function);

} // namespace idem
