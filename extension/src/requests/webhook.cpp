// idem_webhook_receive: checks a webhook with the secrets of its source, and claims its id in the caller's transaction.
#include "core/webhook.hpp"

#include "keys/claim.hpp"
#include "keys/composite_key.hpp"
#include "keys/fingerprint.hpp"
#include "requests/webhook_answer.hpp"
#include "requests/webhook_source.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/hmac.hpp"
#include "storage/key_store.hpp"

namespace {

using namespace idem;
using core::Micros;
using core::Webhook;
using core::WebhookFields;
using core::WebhookFormat;

struct Argument {
    enum { source, headers, body };
};

struct Request {
    const text *source;
    Jsonb *headers; // an object
    std::string_view body;
};

// A request that one or several of the source's secrets signed.
struct Genuine {
    bool found;
    std::string_view id;
    Micros tolerance; // the greatest of these secrets; 0: their formats are not timed
    // When it is fresh by one of these secrets.
    Micros fresh_from;
    Micros fresh_until;
};

struct Answer {
    WebhookOutcome outcome;
    const text *message_id; // or nullptr
};

Jsonb *object_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        raise_null_argument("headers");
    Jsonb *given = PG_GETARG_JSONB_P(arg);
    if (!JB_ROOT_IS_OBJECT(given))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("headers must be a JSON object"),
                        errhint("Pass {\"name\": \"value\" or [\"value\", ...]}.")));
    return given;
}

// The values of a header field. One that has a single value, as almost all have, is not copied.
struct Field {
    std::string_view name; // in lower case; empty: the format has no such field
    std::string_view value;
    StringInfoData joined; // of several values

    void add(std::string_view next) {
        if (value.empty() && joined.data == nullptr) {
            value = next;
            return;
        }
        if (joined.data == nullptr) {
            initStringInfo(&joined);
            appendBinaryStringInfo(&joined, value.data(), static_cast<int>(value.size()));
        }
        appendStringInfoString(&joined, ", ");
        appendBinaryStringInfo(&joined, next.data(), static_cast<int>(next.size()));
        value = {joined.data, static_cast<Size>(joined.len)};
    }
};

void add_string(Field *field, const JsonbValue &value) {
    if (value.type == jbvString)
        field->add({value.val.string.val, static_cast<Size>(value.val.string.len)});
}

// What is neither a string nor an array of strings is no value.
void add_strings(Field *field, const JsonbValue &value) {
    if (value.type != jbvBinary)
        return add_string(field, value);
    JsonbIterator *iterator = JsonbIteratorInit(value.val.binary.data);
    JsonbValue element;
    if (JsonbIteratorNext(&iterator, &element, true) != WJB_BEGIN_ARRAY)
        return;
    while (JsonbIteratorNext(&iterator, &element, true) == WJB_ELEM)
        add_string(field, element);
}

// The values of the format's fields, whatever the case of their names.
WebhookFields fields_of(Jsonb *headers, const WebhookFormat &format) {
    Field fields[] = {{format.id_field, {}, {}}, {format.time_field, {}, {}}, {format.signature_field, {}, {}}};
    JsonbIterator *iterator = JsonbIteratorInit(&headers->root);
    JsonbValue item;
    (void)JsonbIteratorNext(&iterator, &item, true);
    while (JsonbIteratorNext(&iterator, &item, true) == WJB_KEY) {
        const std::string_view name{item.val.string.val, static_cast<Size>(item.val.string.len)};
        (void)JsonbIteratorNext(&iterator, &item, true);
        for (Field &field : fields)
            if (!name.empty() && name.size() == field.name.size() &&
                pg_strncasecmp(name.data(), field.name.data(), name.size()) == 0)
                add_strings(&field, item);
    }
    return {fields[0].value, fields[1].value, fields[2].value};
}

Bytes bytes_of(std::string_view text) { return {text.data(), text.size()}; }

bool is_fresh(const Genuine &webhook, Micros now) { return now >= webhook.fresh_from && now <= webhook.fresh_until; }

// `signed_at`: 0 where the format is not timed.
Genuine genuine_of(std::string_view id, Micros signed_at, Micros tolerance) {
    if (tolerance == 0)
        return {true, id, 0, 0, core::kForever};
    return {true, id, tolerance, signed_at - tolerance, signed_at + tolerance};
}

// Whether the source's secret signed the request, and if so, what the request says of itself.
bool is_signed_by(const StoredSecret &source, const Request &request, Genuine *genuine) {
    const WebhookFormat &format = format_of(source);
    Webhook webhook;
    if (!core::read_webhook(format, fields_of(request.headers, format), &webhook))
        return false;
    const text *before = core_string([&] { return core::signed_before_body(format, webhook); });
    const core::Mac mac = hmac(source.secret.key(), {VARDATA_ANY(before), VARSIZE_ANY_EXHDR(before)}, bytes_of(request.body));
    if (!core::has_signature(format, webhook, mac))
        return false;
    *genuine = genuine_of(webhook.id.empty() ? core::id_in_body(format, request.body) : webhook.id,
                          webhook.seconds * USECS_PER_SEC - kMicrosFrom1970, tolerance_of(source));
    return true;
}

// Tries every secret of the source. A request may be signed by several of them, which may read another id and allow another
// tolerance. The newest names it, so that each copy has the same id; it is fresh as long as it is by any, and is retained for
// as long.
Genuine verify(const Request &request, Micros now) {
    Genuine all{};
    for (const StoredSecret &source : secrets_of(webhook_source_store, request.source)) {
        Genuine one{};
        if (!verifies(source, now) || !is_signed_by(source, request, &one))
            continue;
        if (!all.found) {
            all = one;
            continue;
        }
        all.tolerance = Max(all.tolerance, one.tolerance);
        all.fresh_from = Min(all.fresh_from, one.fresh_from);
        all.fresh_until = Max(all.fresh_until, one.fresh_until);
    }
    return all;
}

const text *digest_of(std::string_view body) {
    uint8 digest[PG_SHA256_DIGEST_LENGTH];
    sha256_of(body.data(), body.size(), digest);
    StringInfoData hex;
    initStringInfo(&hex);
    for (const uint8 byte : digest)
        appendStringInfo(&hex, "%02x", byte);
    return cstring_to_text_with_len(hex.data, hex.len);
}

// The id is retained at least for as long as a copy of this request is fresh. A call that has waited for another claim of the
// id may find that claim expired, or rolled back, when its own request is no longer fresh: it then gives the id back.
WebhookOutcome claim_id(const text *source, const text *id, const text *scope, const ScopePolicy &policy,
                        const Genuine &webhook) {
    ClaimRequest request{};
    request.function = "idem_webhook_receive()";
    request.key = composite_key(source, id);
    request.scope = scope;
    apply_policy(&request, policy, nullptr);
    request.least_ttl = 2 * webhook.tolerance + USECS_PER_SEC;
    request.ttl = Max(request.ttl, request.least_ttl);
    request.waits_for_commit = true;
    const KeyTable table = open_keys(Access::write, request.space, request.scope);
    Claimed claimed = claim_key(table, request);
    const bool is_stale = is_granted(claimed.outcome) && !is_fresh(webhook, clock_now());
    if (!is_stale)
        count_outcome(request, claimed.outcome);
    else if (delete_key(table, &claimed.version) != Write::done)
        elog(ERROR, "claim of webhook \"%s\" was changed by another transaction", text_to_cstring(id));
    close_keys(table);
    raise_if_held(claimed, request.key);
    return is_stale                      ? WebhookOutcome::stale
           : is_granted(claimed.outcome) ? WebhookOutcome::accepted
                                         : WebhookOutcome::duplicate;
}

Answer receive(const Request &request) {
    const text *scope = cstring_to_text("webhook");
    const ScopePolicy policy = scope_policy(scope);
    const Micros now = clock_now();
    const Genuine webhook = verify(request, now);
    if (!webhook.found)
        return {WebhookOutcome::invalid, nullptr};
    const text *id = webhook.id.empty() ? digest_of(request.body)
                                        : cstring_to_text_with_len(webhook.id.data(), static_cast<int>(webhook.id.size()));
    if (!is_fresh(webhook, now))
        return {WebhookOutcome::stale, id};
    return {claim_id(request.source, id, scope, policy, webhook), id};
}

} // namespace

SQL_FUNCTION(idem_webhook_receive) {
    Request request;
    request.source = required_text(fcinfo, Argument::source, "source");
    request.headers = object_argument(fcinfo, Argument::headers);
    const bytea *body = required_text(fcinfo, Argument::body, "body");
    request.body = {VARDATA_ANY(body), VARSIZE_ANY_EXHDR(body)};
    const Answer answer = receive(request);
    require_function(fcinfo);
    const Datum values[] = {enum_value(webhook_outcome_enum, static_cast<int>(answer.outcome)),
                            PointerGetDatum(answer.message_id)};
    const bool nulls[] = {false, answer.message_id == nullptr};
    PG_RETURN_DATUM(make_composite(fcinfo, webhook_answer_type, values, nulls));
}
