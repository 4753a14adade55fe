// idem_webhook_source_set, idem_webhook_source_drop, and what they store.
#include "requests/webhook_source.hpp"

#include "server/arguments.hpp"

#include <optional>

namespace {

using namespace idem;
using core::Micros;
using core::WebhookFormat;

// Senders let their users choose short ones.
constexpr int kMinSecretBytes = 8;

struct SourceColumn {
    enum : AttrNumber { format = SigningColumn::first_other, tolerance };
};

constexpr Column kColumns[] = {{"source", TEXTOID}, {"created_at", TIMESTAMPTZOID}, {"expires_at", TIMESTAMPTZOID},
                               {"format", TEXTOID}, {"tolerance", INTERVALOID},     {"secret", BYTEAOID}};

struct Argument {
    enum { source, format, secret, keep_old, tolerance };
};

const WebhookFormat *format_called(const text *name) {
    return core::webhook_format({VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)});
}

const WebhookFormat *stored_format(const StoredSecret &row) {
    return format_called(DatumGetTextPP(row.get(SourceColumn::format)));
}

bool is_intact(const StoredSecret &row) { return has_intact_bytes(row) && stored_format(row) != nullptr; }

void raise_damaged(const StoredSecret &row) {
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                    errmsg("a secret of webhook source \"%s\" is damaged", text_to_cstring(name_of(row))),
                    errhint("Drop it with idem_webhook_source_drop, and set it again.")));
}

} // namespace

namespace idem {

constinit Member webhook_sources = member_of_secrets("idem_webhook_sources", kColumns);
constinit SecretStore webhook_source_store{webhook_sources, by_name, is_intact, raise_damaged, nullptr, 0};

const WebhookFormat &format_of(const StoredSecret &source) { return *stored_format(source); }

Micros tolerance_of(const StoredSecret &source) {
    return span_of(DatumGetIntervalP(source.get(SourceColumn::tolerance)), "tolerance");
}

} // namespace idem

namespace {

const text *format_argument(FunctionCallInfo fcinfo, const WebhookFormat **format) {
    const text *name = required_text(fcinfo, Argument::format, "format");
    *format = format_called(name);
    if (*format == nullptr)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown webhook format \"%s\"", text_to_cstring(name)),
                 errhint("The formats are: %s.", core::kWebhookFormats)));
    return name;
}

Interval *interval_of(Micros span) {
    auto *interval = static_cast<Interval *>(palloc0(sizeof(Interval)));
    interval->time = span;
    return interval;
}

Interval *stored_tolerance(FunctionCallInfo fcinfo, const WebhookFormat &format) {
    if (format.is_timed)
        return interval_of(tolerance_argument(fcinfo, Argument::tolerance));
    if (!PG_ARGISNULL(Argument::tolerance))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("webhooks of this format have no time of signing"),
                        errhint("Leave tolerance out.")));
    return interval_of(0);
}

Secret secret_argument(FunctionCallInfo fcinfo, const WebhookFormat &format) {
    const bytea *given = required_text(fcinfo, Argument::secret, "secret");
    const Size given_size = VARSIZE_ANY_EXHDR(given);
    auto *key = static_cast<uint8 *>(palloc(Max(given_size, 1)));
    const std::optional<std::size_t> size = core::webhook_key(format, {VARDATA_ANY(given), given_size}, key);
    if (!size)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("secret is not in base64 after its prefix \"whsec_\"")));
    check_secret_size(*size, kMinSecretBytes);
    const Secret secret = stored_secret(key, *size);
    explicit_bzero(key, given_size);
    return secret;
}

} // namespace

SQL_FUNCTION(idem_webhook_source_set) {
    const WebhookFormat *format;
    StoredSecret row{};
    row.set(SigningColumn::name, PointerGetDatum(secret_name_argument(fcinfo, Argument::source, "source")));
    row.set(SourceColumn::format, PointerGetDatum(format_argument(fcinfo, &format)));
    row.set(SourceColumn::tolerance, IntervalPGetDatum(stored_tolerance(fcinfo, *format)));
    row.secret = secret_argument(fcinfo, *format);
    const Micros now = clock_now();
    set_secret(webhook_source_store, &row, now, old_until_argument(fcinfo, Argument::keep_old, now),
               "idem_webhook_source_set()");
    explicit_bzero(&row, sizeof row);
    PG_RETURN_VOID();
}

SQL_FUNCTION(idem_webhook_source_drop) {
    PG_RETURN_BOOL(drop_secrets(webhook_source_store, secret_name_argument(fcinfo, Argument::source, "source"),
                                "idem_webhook_source_drop()"));
}
