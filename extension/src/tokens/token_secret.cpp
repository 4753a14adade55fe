#include "tokens/token_secret.hpp"

#include "server/arguments.hpp"
#include "server/random.hpp"

namespace idem {

namespace {

using core::Micros;

struct SecretColumn {
    enum : AttrNumber { key_id = 1, database, created_at, secret };
};

constexpr Column kColumns[] = {{"key_id", INT4OID}, {"database", OIDOID}, {"created_at", TIMESTAMPTZOID}, {"secret", BYTEAOID}};

} // namespace

constinit Member token_secrets = member_of_secrets("idem_token_secrets", kColumns);

namespace {

// Other sessions sign with the old secret until a rotation commits, which must happen within this time.
constexpr Micros kMaxRotationTime = USECS_PER_DAY;

int32 key_id_of(const StoredSecret &row) { return DatumGetInt32(row.get(SecretColumn::key_id)); }
Micros creation_of(const StoredSecret &row) { return DatumGetTimestampTz(row.get(SecretColumn::created_at)); }
bool is_own(const StoredSecret &row) { return DatumGetObjectId(row.get(SecretColumn::database)) == MyDatabaseId; }

int newest_first(const void *left, const void *right) {
    const auto &a = *static_cast<const StoredSecret *>(left);
    const auto &b = *static_cast<const StoredSecret *>(right);
    if (key_id_of(a) != key_id_of(b))
        return key_id_of(a) < key_id_of(b) ? 1 : -1;
    return (creation_of(a) < creation_of(b)) - (creation_of(a) > creation_of(b));
}

bool is_intact(const StoredSecret &row) { return row.secret.size == kSecretBytes; }

void raise_damaged(const StoredSecret &row) {
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("secret %d of idem_token_secrets is damaged", key_id_of(row)),
                    errhint("Delete the row; its tokens are lost.")));
}

constinit SecretStore store{token_secrets, newest_first, is_intact, raise_damaged, nullptr, 0};

// The latest expiry of a token that was signed before every session knew the successor.
Micros max_expiry_before(const StoredSecret &successor) { return creation_of(successor) + kMaxTokenTtl + kMaxRotationTime; }

const StoredSecret *newest_own(const SecretRows &rows) {
    for (int i = 0; i < rows.count; i++)
        if (is_own(rows.list[i]))
            return &rows.list[i];
    return nullptr;
}

int32 next_key_id(const SecretRows &rows) {
    const int32 newest = rows.count > 0 ? key_id_of(rows.list[0]) : 0;
    if (newest == PG_INT32_MAX)
        ereport(ERROR,
                (errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED), errmsg("the key ids of idem_token_secrets are used up")));
    return newest + 1;
}

void insert_new(const SecretChange &change, Micros now) {
    StoredSecret row{};
    row.set(SecretColumn::key_id, Int32GetDatum(next_key_id(*change.rows)));
    row.set(SecretColumn::database, ObjectIdGetDatum(MyDatabaseId));
    row.set(SecretColumn::created_at, TimestampTzGetDatum(now));
    row.secret.size = kSecretBytes;
    fill_random(row.secret.bytes, kSecretBytes);
    insert_secret(change, row);
    explicit_bzero(&row, sizeof row);
}

// Deletes the secrets whose tokens have all expired, or all secrets. REQUIRES: a newer one was inserted at `now`.
void delete_old(const SecretChange &change, bool all, Micros now) {
    Micros verifies_until = core::kForever;
    for (int i = 0; i < change.rows->count; i++) {
        const StoredSecret &row = change.rows->list[i];
        if (all || !is_own(row) || verifies_until < now)
            delete_secret(change, row);
        if (is_own(row))
            verifies_until = max_expiry_before(row);
    }
}

enum class CreateWhen { always, if_none };

void create_secret(CreateWhen when, bool revoke, const char *function) {
    const SecretChange change = begin_change(store, function);
    if (when == CreateWhen::always || newest_own(*change.rows) == nullptr) {
        const Micros now = clock_now();
        insert_new(change, now);
        delete_old(change, revoke, now);
    }
    end_change(change);
}

} // namespace

TokenSecret signing_secret(const char *function) {
    const StoredSecret *newest = newest_own(current_secrets(store));
    if (newest == nullptr) {
        create_secret(CreateWhen::if_none, false, function);
        newest = newest_own(current_secrets(store));
    }
    if (newest == nullptr)
        elog(ERROR, "there is no secret to sign tokens with");
    return {static_cast<uint32>(key_id_of(*newest)), core::kForever, newest->secret};
}

bool find_secret(uint32 key_id, int n, TokenSecret *found) {
    const SecretRows &rows = current_secrets(store);
    Micros max_expiry = core::kForever;
    for (int i = 0; i < rows.count; i++) {
        const StoredSecret &row = rows.list[i];
        if (!is_own(row))
            continue;
        if (static_cast<uint32>(key_id_of(row)) == key_id && n-- == 0) {
            *found = {key_id, max_expiry, row.secret};
            return true;
        }
        max_expiry = max_expiry_before(row);
    }
    return false;
}

void rotate_secret(bool revoke, const char *function) { create_secret(CreateWhen::always, revoke, function); }

} // namespace idem
