// Secrets that have a name and are rotated: tables of the columns name, created_at, expires_at, others, secret. A name has one
// secret without an end. Its earlier secrets verify for as long as the operator has chosen. The operator keeps a copy of them
// elsewhere.
#pragma once

#include "core/key_state.hpp"
#include "storage/secret_store.hpp"

#include <span>

namespace idem {

struct SigningColumn {
    enum : AttrNumber { name = 1, created_at, expires_at, first_other };
};

inline constexpr int kMaxSecretNameBytes = 255;

// Arguments of the functions that set and drop secrets. Messages call them `name`.
const text *secret_name_argument(FunctionCallInfo fcinfo, int arg, const char *name);
core::Micros tolerance_argument(FunctionCallInfo fcinfo, int arg);                   // 5 minutes when NULL; 22023 over 7 days
core::Micros old_until_argument(FunctionCallInfo fcinfo, int arg, core::Micros now); // the end of keep_old
void check_secret_size(Size bytes, int min_bytes);

// The secret as it is stored: a key that is too long for HMAC as its SHA-256, which has the same MACs.
Secret stored_secret(const void *key, Size size);

// For the SecretStore of such a table: the secrets of one name are neighbours, the newest first.
int by_name(const void *left, const void *right);
inline const text *name_of(const StoredSecret &row) { return DatumGetTextPP(row.get(SigningColumn::name)); }
inline bool has_intact_bytes(const StoredSecret &row) { return row.secret.size <= kMaxHmacKeyBytes; }

// The secrets of this name, the newest first, also those that no longer verify. Valid until the next call for this store.
std::span<const StoredSecret> secrets_of(SecretStore &store, const text *name);

// Whether a secret of the table verifies at `now`.
inline bool verifies(const StoredSecret &row, core::Micros now) {
    return DatumGetTimestampTz(row.get(SigningColumn::expires_at)) > now;
}

// Adds `row`, of which created_at and expires_at are set here; earlier secrets of its name verify until `old_until`, except
// those that are equal to it. Waits for
// another transaction that has changed the table, and makes later changes wait for the end of this transaction. Messages name
// `function`.
void set_secret(SecretStore &store, StoredSecret *row, core::Micros now, core::Micros old_until, const char *function);

// Deletes all secrets of the name. Returns false when it had none. Waits as set_secret does.
bool drop_secrets(SecretStore &store, const text *name, const char *function);

} // namespace idem
