#include "requests/signing_secret.hpp"

#include "keys/fingerprint.hpp"
#include "server/arguments.hpp"
#include "server/bytes.hpp"

#include <algorithm>

namespace idem {

namespace {

using core::Micros;

constexpr int kMaxSecretBytes = 1024;

Micros creation_of(const StoredSecret &row) { return DatumGetTimestampTz(row.get(SigningColumn::created_at)); }
Micros expiry_of(const StoredSecret &row) { return DatumGetTimestampTz(row.get(SigningColumn::expires_at)); }

std::span<const StoredSecret> rows_of(const SecretRows &rows, const text *name) {
    const StoredSecret *end = rows.list + rows.count;
    const StoredSecret *first = std::partition_point<const StoredSecret *>(
        rows.list, end, [&](const StoredSecret &row) { return compare_bytes(name_of(row), name) < 0; });
    const StoredSecret *last =
        std::find_if(first, end, [&](const StoredSecret &row) { return compare_bytes(name_of(row), name) != 0; });
    return {first, last};
}

// Whether both verify the same requests: they have the same bytes and the same other columns.
bool is_same(TupleDesc layout, const StoredSecret &left, const StoredSecret &right) {
    bool same = left.secret.size == right.secret.size && memcmp(left.secret.bytes, right.secret.bytes, left.secret.size) == 0;
    for (AttrNumber column = SigningColumn::first_other; same && column < layout->natts; column++) {
        Form_pg_attribute type = TupleDescAttr(layout, column - 1);
        same = datum_image_eq(left.get(column), right.get(column), type->attbyval, type->attlen);
    }
    return same;
}

} // namespace

const text *secret_name_argument(FunctionCallInfo fcinfo, int arg, const char *name) {
    const text *given = required_text(fcinfo, arg, name);
    const Size bytes = VARSIZE_ANY_EXHDR(given);
    if (bytes == 0 || bytes > kMaxSecretNameBytes)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("%s must have from 1 to %d bytes", name, kMaxSecretNameBytes)));
    return given;
}

Micros tolerance_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        return 5 * Micros{USECS_PER_MINUTE};
    const Micros tolerance = positive_span_of(PG_GETARG_INTERVAL_P(arg), "tolerance");
    if (tolerance > 7 * USECS_PER_DAY)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("tolerance must not be longer than 7 days")));
    return tolerance;
}

Micros old_until_argument(FunctionCallInfo fcinfo, int arg, Micros now) {
    const Micros keep_old = PG_ARGISNULL(arg) ? 0 : span_of(PG_GETARG_INTERVAL_P(arg), "keep_old");
    if (keep_old < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("keep_old must not be negative")));
    return keep_old == 0 ? now : deadline_after(now, keep_old, "keep_old");
}

void check_secret_size(Size bytes, int min_bytes) {
    if (bytes < static_cast<Size>(min_bytes) || bytes > kMaxSecretBytes)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("secret must have from %d to %d bytes", min_bytes, kMaxSecretBytes),
                        errhint("Make one of 32 random bytes.")));
}

Secret stored_secret(const void *key, Size size) {
    Secret stored{};
    stored.size = static_cast<int>(size);
    if (size <= kMaxHmacKeyBytes) {
        memcpy(stored.bytes, key, size);
        return stored;
    }
    stored.size = PG_SHA256_DIGEST_LENGTH;
    sha256_of(key, size, stored.bytes);
    return stored;
}

int by_name(const void *left, const void *right) {
    const auto &a = *static_cast<const StoredSecret *>(left);
    const auto &b = *static_cast<const StoredSecret *>(right);
    const int order = compare_bytes(name_of(a), name_of(b));
    if (order != 0)
        return order;
    if (creation_of(a) != creation_of(b))
        return creation_of(a) < creation_of(b) ? 1 : -1;
    return (expiry_of(a) < expiry_of(b)) - (expiry_of(a) > expiry_of(b));
}

std::span<const StoredSecret> secrets_of(SecretStore &store, const text *name) { return rows_of(current_secrets(store), name); }

void set_secret(SecretStore &store, StoredSecret *row, Micros now, Micros old_until, const char *function) {
    row->set(SigningColumn::created_at, TimestampTzGetDatum(now));
    row->set(SigningColumn::expires_at, TimestampTzGetDatum(core::kForever));
    const SecretChange change = begin_change(store, function);
    for (const StoredSecret &old : rows_of(*change.rows, name_of(*row))) {
        const bool is_kept = store.is_intact(old) && verifies(old, now) && !is_same(RelationGetDescr(change.table), old, *row);
        if (is_kept && expiry_of(old) <= old_until)
            continue;
        delete_secret(change, old);
        if (is_kept && old_until > now) {
            StoredSecret shortened = old;
            shortened.set(SigningColumn::expires_at, TimestampTzGetDatum(old_until));
            insert_secret(change, shortened);
            explicit_bzero(&shortened, sizeof shortened);
        }
    }
    insert_secret(change, *row);
    end_change(change);
}

bool drop_secrets(SecretStore &store, const text *name, const char *function) {
    const SecretChange change = begin_change(store, function);
    const auto rows = rows_of(*change.rows, name);
    const bool dropped = !rows.empty();
    for (const StoredSecret &row : rows)
        delete_secret(change, row);
    end_change(change);
    return dropped;
}

} // namespace idem
