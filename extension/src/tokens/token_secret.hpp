// The secrets that tokens are signed with: rows of idem_token_secrets, one of which signs.
//
// A row never changes. Of those made in this database, the one with the greatest key id signs. The others verify until the
// last token that they could have signed has expired, and the next rotation deletes them. A row that came with a copied
// database (CREATE DATABASE … TEMPLATE) neither signs nor verifies: two databases must not accept each other's tokens.
#pragma once

#include "core/key_state.hpp"
#include "storage/secret_store.hpp"

namespace idem {

extern Member token_secrets;

inline constexpr core::Micros kLongestTokenLife = 7 * USECS_PER_DAY;

struct TokenSecret {
    uint32 key_id;
    core::Micros signs_no_later; // it cannot have signed a token that expires after that
    Secret secret;
};

// The secret to sign with. Makes the first one; after that, writes nothing. `function`: for messages.
TokenSecret signing_secret(const char *function);

// The n-th secret, from 0 on, with this key id; false when there is none (any longer). There can be several: rows that came
// with an initial copy of logical replication from a database with the same OID.
bool find_secret(uint32 key_id, int n, TokenSecret *secret);

// Makes a new secret, and deletes those that are out of use, or with `revoke` all others. Waits for the end of another
// transaction that has rotated, and makes later ones wait for this one.
void rotate_secret(bool revoke, const char *function);

} // namespace idem
