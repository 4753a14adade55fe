// The secrets that tokens are signed with: rows of idem_token_secrets, one of which signs.
//
// A row never changes. The one with the greatest key id, made in this database, signs; the others verify until the last token
// that they could have signed has expired, and go with the next rotation. A row that came with a copied database (CREATE
// DATABASE … TEMPLATE) is nobody's here: two databases must not take each other's tokens.
//
// Secrets are written past the executor and past logical decoding, and the table has neither indexes nor statistics: no
// statement, parameter, trigger, error message, publication or view ever has one in it. It is not dumped.
#pragma once

#include "core/key_state.hpp"
#include "server/hmac.hpp"
#include "storage/member.hpp"

namespace idem {

extern Member token_secrets;

inline constexpr core::Micros kLongestTokenLife = 7 * USECS_PER_DAY;

struct TokenSecret {
    int32 key_id;
    core::Micros signs_no_later; // it cannot have signed a token that expires after that
    uint8 bytes[kSecretBytes];
};

// The secret to sign with. Makes the first one; after that, writes nothing. `function`: for messages.
TokenSecret signing_secret(const char *function);

// The n-th secret, from 0 on, with this key id; false when there is none (any longer). There can be several: rows that came
// with an initial copy of logical replication from a database with the same OID.
bool find_secret(uint32 key_id, int n, TokenSecret *secret);

// Makes a new secret, and deletes those that are out of use: `revoke`: all others. Whoever does the same meanwhile waits for
// this transaction's end.
void rotate_secret(bool revoke, const char *function);

} // namespace idem
