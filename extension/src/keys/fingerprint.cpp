// Fingerprints: one byte of algorithm version, then SHA-256 of the request's canonical form in UTF-8.
#include "keys/fingerprint.hpp"

#include "core/canonical_json.hpp"
#include "server/arguments.hpp"
#include "server/guard.hpp"
#include "server/utf8.hpp"

namespace {

using namespace idem;

// SHA-256 over several pieces. The server frees the context when an error is raised in between.
struct Sha256 {
    pg_cryptohash_ctx *context;
};

[[noreturn]] void raise_hash_failure(const Sha256 &hash) {
    elog(ERROR, "could not compute SHA-256: %s", pg_cryptohash_error(hash.context));
    pg_unreachable();
}

Sha256 begin_hash() {
    const Sha256 hash{pg_cryptohash_create(PG_SHA256)};
    if (pg_cryptohash_init(hash.context) < 0)
        raise_hash_failure(hash);
    return hash;
}

void add_to_hash(const Sha256 &hash, const void *data, Size size) {
    if (pg_cryptohash_update(hash.context, static_cast<const uint8 *>(data), size) < 0)
        raise_hash_failure(hash);
}

// Small pieces together, as each call of the library costs as much as a block of 64 bytes.
void add_pieces(const Sha256 &hash, const std::string_view *pieces, int count) {
    char together[256];
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        const std::string_view piece = pieces[i];
        if (piece.size() > sizeof together - used) {
            add_to_hash(hash, together, used);
            used = 0;
        }
        if (piece.size() > sizeof together)
            add_to_hash(hash, piece.data(), piece.size());
        else
            used += piece.copy(together + used, piece.size());
    }
    add_to_hash(hash, together, used);
}

void end_hash(const Sha256 &hash, uint8 *digest) {
    if (pg_cryptohash_final(hash.context, digest, PG_SHA256_DIGEST_LENGTH) < 0)
        raise_hash_failure(hash);
    pg_cryptohash_free(hash.context);
}

bytea *end_fingerprint(const Sha256 &hash, uint8 version = core::kFingerprintVersion) {
    auto *result = static_cast<bytea *>(palloc(VARHDRSZ + 1 + PG_SHA256_DIGEST_LENGTH));
    SET_VARSIZE(result, VARHDRSZ + 1 + PG_SHA256_DIGEST_LENGTH);
    auto *out = reinterpret_cast<uint8 *>(VARDATA(result));
    out[0] = version;
    end_hash(hash, out + 1);
    return result;
}

bytea *fingerprint_of(const void *data, Size size) {
    const Sha256 hash = begin_hash();
    add_to_hash(hash, data, size);
    return end_fingerprint(hash);
}

static_assert(std::is_trivially_destructible_v<core::CanonicalJson>); // it lives across calls that can ereport

// One token of a jsonb value, in types that core code can use.
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

void feed_scalar(core::CanonicalJson &form, const Event &event, std::string &out) {
    switch (event.type) {
    case jbvString:
        return form.string(out, event.text);
    case jbvNumeric:
        return form.number(out, event.text);
    case jbvBool:
        return form.boolean(out, event.boolean);
    default:
        return form.null(out);
    }
}

void feed(core::CanonicalJson &form, const Event &event, std::string &out) {
    switch (event.token) {
    case WJB_BEGIN_OBJECT:
        return form.begin_object(out);
    case WJB_END_OBJECT:
        return form.end_object(out);
    case WJB_BEGIN_ARRAY:
        return form.begin_array(out);
    case WJB_END_ARRAY:
        return form.end_array(out);
    case WJB_KEY:
        return form.name(out, event.text);
    default:
        return feed_scalar(form, event, out);
    }
}

// The canonical form is hashed event by event: in plain decimal notation, a short document can be very long.
void add_document(const Sha256 &hash, Jsonb *document) {
    const bool is_scalar = JB_ROOT_IS_SCALAR(document); // stored in an array, which is not part of the document
    core::CanonicalJson form;
    MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "idem fingerprint", ALLOCSET_DEFAULT_SIZES);
    JsonbIterator *iterator = JsonbIteratorInit(&document->root);
    JsonbValue value;
    for (JsonbIteratorToken token; (token = JsonbIteratorNext(&iterator, &value, false)) != WJB_DONE; check_for_interrupts()) {
        if (is_scalar && token != WJB_ELEM)
            continue;
        const MemoryContext caller = MemoryContextSwitchTo(scratch);
        const Event event = event_of(token, value);
        const auto *piece = core_string([&] {
            std::string out;
            feed(form, event, out);
            return out;
        });
        add_to_hash(hash, VARDATA(piece), VARSIZE(piece) - VARHDRSZ);
        MemoryContextSwitchTo(caller);
        MemoryContextReset(scratch);
    }
    MemoryContextDelete(scratch);
}

} // namespace

namespace idem {

void sha256_of(const void *data, Size size, uint8 *digest) {
    const Sha256 hash = begin_hash();
    add_to_hash(hash, data, size);
    end_hash(hash, digest);
}

bytea *fingerprint_of_pieces(uint8 version, const std::string_view *pieces, int count, Jsonb *document) {
    const Sha256 hash = begin_hash();
    add_pieces(hash, pieces, count);
    if (document != nullptr)
        add_document(hash, document);
    return end_fingerprint(hash, version);
}

} // namespace idem

SQL_FUNCTION(idem_fingerprint) {
    PG_RETURN_BYTEA_P(fingerprint_of_pieces(core::kFingerprintVersion, nullptr, 0, PG_GETARG_JSONB_P(0)));
}

SQL_FUNCTION(idem_fingerprint_text) {
    const std::string_view utf8 = as_utf8(PG_GETARG_TEXT_PP(0));
    PG_RETURN_BYTEA_P(fingerprint_of(utf8.data(), utf8.size()));
}

SQL_FUNCTION(idem_fingerprint_bytes) {
    const bytea *request = PG_GETARG_BYTEA_PP(0);
    PG_RETURN_BYTEA_P(fingerprint_of(VARDATA_ANY(request), VARSIZE_ANY_EXHDR(request)));
}
