// idem_api_key_set, idem_api_key_drop, and what they store.
#include "requests/api_key.hpp"

#include "server/arguments.hpp"

namespace idem {

namespace {

constexpr int kMinSecretBytes = 16;

constexpr Column kColumns[] = {
    {"key_id", TEXTOID}, {"created_at", TIMESTAMPTZOID}, {"expires_at", TIMESTAMPTZOID}, {"secret", BYTEAOID}};

void raise_damaged(const StoredSecret &row) {
    ereport(ERROR,
            (errcode(ERRCODE_DATA_CORRUPTED), errmsg("a secret of API key \"%s\" is damaged", text_to_cstring(name_of(row))),
             errhint("Drop it with idem_api_key_drop, and set it again.")));
}

} // namespace

constinit Member api_keys = member_of_secrets("idem_api_keys", kColumns);
constinit SecretStore api_key_store{api_keys, by_name, has_intact_bytes, raise_damaged, nullptr, 0};

} // namespace idem

using namespace idem;

SQL_FUNCTION(idem_api_key_set) {
    StoredSecret row{};
    row.set(SigningColumn::name, PointerGetDatum(secret_name_argument(fcinfo, 0, "key_id")));
    const bytea *given = required_text(fcinfo, 1, "secret");
    check_secret_size(VARSIZE_ANY_EXHDR(given), kMinSecretBytes);
    row.secret = stored_secret(VARDATA_ANY(given), VARSIZE_ANY_EXHDR(given));
    const core::Micros now = clock_now();
    set_secret(api_key_store, &row, now, old_until_argument(fcinfo, 2, now), "idem_api_key_set()");
    explicit_bzero(&row, sizeof row);
    PG_RETURN_VOID();
}

SQL_FUNCTION(idem_api_key_drop) {
    PG_RETURN_BOOL(drop_secrets(api_key_store, secret_name_argument(fcinfo, 0, "key_id"), "idem_api_key_drop()"));
}
