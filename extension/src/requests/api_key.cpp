#include "requests/api_key.hpp"

#include "keys/fingerprint.hpp"
#include "server/bytes.hpp"

#include <algorithm>
#include <span>

namespace idem {

namespace {

using core::Micros;

struct ApiKeyColumn {
    enum : AttrNumber { key_id = 1, created_at, expires_at, secret };
};

constexpr Column kColumns[] = {
    {"key_id", TEXTOID}, {"created_at", TIMESTAMPTZOID}, {"expires_at", TIMESTAMPTZOID}, {"secret", BYTEAOID}};

} // namespace

constinit Member api_keys = member_of_secrets("idem_api_keys", kColumns);

namespace {

const text *id_of(const StoredSecret &row) { return DatumGetTextPP(row.get(ApiKeyColumn::key_id)); }
Micros expiry_of(const StoredSecret &row) { return DatumGetTimestampTz(row.get(ApiKeyColumn::expires_at)); }

int by_id(const void *left, const void *right) {
    return compare_bytes(id_of(*static_cast<const StoredSecret *>(left)), id_of(*static_cast<const StoredSecret *>(right)));
}

bool is_intact(const StoredSecret &row) { return row.secret.size <= kMaxHmacKeyBytes; }

void check_row(const StoredSecret &row) {
    if (!is_intact(row))
        ereport(ERROR,
                (errcode(ERRCODE_DATA_CORRUPTED), errmsg("a secret of API key \"%s\" is damaged", text_to_cstring(id_of(row))),
                 errhint("Drop it with idem_api_key_drop, and set it anew.")));
}

constinit SecretStore store{api_keys, by_id, check_row, nullptr, 0};

std::span<const StoredSecret> rows_of(const SecretRows &rows, const text *id) {
    const StoredSecret *end = rows.list + rows.count;
    const StoredSecret *first = std::partition_point(
        rows.list, rows.list + rows.count, [&](const StoredSecret &row) { return compare_bytes(id_of(row), id) < 0; });
    const StoredSecret *last =
        std::find_if(first, end, [&](const StoredSecret &row) { return compare_bytes(id_of(row), id) != 0; });
    return {first, last};
}

// A secret that is too long for HMAC is stored as its SHA-256, which has the same MACs.
Secret stored_form(const bytea *given) {
    Secret stored{};
    const Size size = VARSIZE_ANY_EXHDR(given);
    stored.size = static_cast<int>(size);
    if (size <= kMaxHmacKeyBytes) {
        memcpy(stored.bytes, VARDATA_ANY(given), size);
        return stored;
    }
    stored.size = PG_SHA256_DIGEST_LENGTH;
    sha256_of(VARDATA_ANY(given), size, stored.bytes);
    return stored;
}

bool is_same(const Secret &left, const Secret &right) {
    return left.size == right.size && memcmp(left.bytes, right.bytes, left.size) == 0;
}

} // namespace

bool find_api_secret(const text *id, int n, Micros now, Secret *found) {
    for (const StoredSecret &row : rows_of(current_secrets(store), id))
        if (expiry_of(row) > now && n-- == 0) {
            *found = row.secret;
            return true;
        }
    return false;
}

void set_api_secret(const text *id, const bytea *given, Micros now, Micros old_until, const char *function) {
    StoredSecret added{};
    added.set(ApiKeyColumn::key_id, PointerGetDatum(id));
    added.set(ApiKeyColumn::created_at, TimestampTzGetDatum(now));
    added.set(ApiKeyColumn::expires_at, TimestampTzGetDatum(core::kForever));
    added.secret = stored_form(given);
    const SecretChange change = begin_change(store, function);
    for (const StoredSecret &old : rows_of(*change.rows, id)) {
        const bool verifies = is_intact(old) && expiry_of(old) > now && !is_same(old.secret, added.secret);
        if (verifies && expiry_of(old) <= old_until)
            continue;
        delete_secret(change, old);
        if (verifies && old_until > now) {
            StoredSecret shortened = old;
            shortened.set(ApiKeyColumn::expires_at, TimestampTzGetDatum(old_until));
            insert_secret(change, shortened);
            explicit_bzero(&shortened, sizeof shortened);
        }
    }
    insert_secret(change, added);
    explicit_bzero(&added, sizeof added);
    end_change(change);
}

bool drop_api_key(const text *id, const char *function) {
    const SecretChange change = begin_change(store, function);
    const auto rows = rows_of(*change.rows, id);
    const bool dropped = !rows.empty();
    for (const StoredSecret &row : rows)
        delete_secret(change, row);
    end_change(change);
    return dropped;
}

} // namespace idem
