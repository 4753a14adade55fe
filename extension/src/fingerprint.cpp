// Fingerprints: one byte of algorithm version, then SHA-256 of the request's canonical form in UTF-8.
#include "arguments.hpp"
#include "core/canonical_json.hpp"
#include "guard.hpp"

namespace {

using namespace idem;

bytea *fingerprint_of(const void *data, Size size) {
    auto *result = static_cast<bytea *>(palloc(VARHDRSZ + 1 + PG_SHA256_DIGEST_LENGTH));
    SET_VARSIZE(result, VARHDRSZ + 1 + PG_SHA256_DIGEST_LENGTH);
    auto *out = reinterpret_cast<uint8 *>(VARDATA(result));
    out[0] = core::kFingerprintVersion;
    pg_cryptohash_ctx *hash = pg_cryptohash_create(PG_SHA256);
    if (pg_cryptohash_init(hash) < 0 || pg_cryptohash_update(hash, static_cast<const uint8 *>(data), size) < 0 ||
        pg_cryptohash_final(hash, out + 1, PG_SHA256_DIGEST_LENGTH) < 0)
        elog(ERROR, "could not compute SHA-256: %s", pg_cryptohash_error(hash));
    pg_cryptohash_free(hash);
    return result;
}

// The bytes of `size` bytes of server-encoded text in UTF-8.
std::string_view as_utf8(const char *data, int size) {
    const char *converted = pg_server_to_any(data, size, PG_UTF8);
    return {converted, converted == data ? static_cast<size_t>(size) : strlen(converted)};
}

// One step through a jsonb value, in terms that core code understands.
struct Event {
    JsonbIteratorToken token;
    jbvType type;
    std::string_view text;
    bool boolean;
};

Event event_of(JsonbIteratorToken token, const JsonbValue &value) {
    Event event{token, value.type, {}, false};
    if (token != WJB_KEY && token != WJB_VALUE && token != WJB_ELEM)
        return event;
    if (value.type == jbvString)
        event.text = as_utf8(value.val.string.val, value.val.string.len);
    else if (value.type == jbvNumeric)
        event.text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
    else if (value.type == jbvBool)
        event.boolean = value.val.boolean;
    return event;
}

void feed_scalar(core::CanonicalJson &canonical, const Event &event) {
    switch (event.type) {
    case jbvString:
        canonical.string(event.text);
        break;
    case jbvNumeric:
        canonical.number(event.text);
        break;
    case jbvBool:
        canonical.boolean(event.boolean);
        break;
    default:
        canonical.null();
    }
}

void feed(core::CanonicalJson &canonical, const Event &event, bool scalar_document) {
    switch (event.token) {
    case WJB_BEGIN_OBJECT:
        return canonical.begin_object();
    case WJB_END_OBJECT:
        return canonical.end_object();
    case WJB_BEGIN_ARRAY: // a bare scalar is stored as an array of one
        return scalar_document ? void() : canonical.begin_array();
    case WJB_END_ARRAY:
        return scalar_document ? void() : canonical.end_array();
    case WJB_KEY:
        return canonical.name(event.text);
    default:
        return feed_scalar(canonical, event);
    }
}

struct Events {
    Event *list;
    Size count;
};

Events events_of(Jsonb *document) {
    Size capacity = 64;
    Events events{static_cast<Event *>(palloc(capacity * sizeof(Event))), 0};
    JsonbIterator *iterator = JsonbIteratorInit(&document->root);
    JsonbValue value;
    for (JsonbIteratorToken token; (token = JsonbIteratorNext(&iterator, &value, false)) != WJB_DONE;) {
        if (events.count == capacity) {
            capacity *= 2;
            events.list = static_cast<Event *>(repalloc_huge(events.list, capacity * sizeof(Event)));
        }
        events.list[events.count++] = event_of(token, value);
    }
    return events;
}

bytea *fingerprint_of_json(Jsonb *document) {
    const Events events = events_of(document);
    const bool scalar_document = JB_ROOT_IS_SCALAR(document);
    const auto *canonical = core_string([&] {
        core::CanonicalJson json;
        for (Size i = 0; i < events.count; i++)
            feed(json, events.list[i], scalar_document);
        return json.text();
    });
    return fingerprint_of(VARDATA(canonical), VARSIZE(canonical) - VARHDRSZ);
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_fingerprint);
PG_FUNCTION_INFO_V1(idem_fingerprint_text);
PG_FUNCTION_INFO_V1(idem_fingerprint_bytes);

PGDLLEXPORT Datum idem_fingerprint(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0))
        raise_null_argument("request");
    PG_RETURN_BYTEA_P(fingerprint_of_json(PG_GETARG_JSONB_P(0)));
}

PGDLLEXPORT Datum idem_fingerprint_text(PG_FUNCTION_ARGS) {
    const text *request = required_text(fcinfo, 0, "request");
    const std::string_view utf8 = as_utf8(VARDATA_ANY(request), static_cast<int>(VARSIZE_ANY_EXHDR(request)));
    PG_RETURN_BYTEA_P(fingerprint_of(utf8.data(), utf8.size()));
}

PGDLLEXPORT Datum idem_fingerprint_bytes(PG_FUNCTION_ARGS) {
    const bytea *request = required_text(fcinfo, 0, "request");
    PG_RETURN_BYTEA_P(fingerprint_of(VARDATA_ANY(request), VARSIZE_ANY_EXHDR(request)));
}

} // extern "C"
