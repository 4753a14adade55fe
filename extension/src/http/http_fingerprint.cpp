#include "http/http_fingerprint.hpp"

#include "core/http_message.hpp"
#include "core/json_text.hpp"
#include "keys/fingerprint.hpp"
#include "server/subtransaction.hpp"
#include "server/utf8.hpp"

namespace idem {

namespace {

using namespace std::string_view_literals;

constexpr int method_part = static_cast<int>(HttpPart::method), route_part = static_cast<int>(HttpPart::route),
              body_part = static_cast<int>(HttpPart::body);

// Fingerprints of different versions are not compared: 1 has all parts, 2 to 4 some of them, 5 to 8 a body that is compared as
// JSON, 9 to 11 no body, 12 and 13 the caller's digest.
uint8 version_of(int parts, bool is_digest, bool compares_json) {
    if (is_digest)
        return parts & method_part ? 13 : 12;
    if (!(parts & body_part))
        return static_cast<uint8>(8 + parts);
    if (compares_json)
        return static_cast<uint8>(1 + parts);
    return parts == kAllHttpParts ? 1 : static_cast<uint8>(parts - 2);
}

int count_members(Jsonb *document) {
    int count = 0;
    JsonbIterator *iterator = JsonbIteratorInit(&document->root);
    JsonbValue value;
    for (JsonbIteratorToken token; (token = JsonbIteratorNext(&iterator, &value, false)) != WJB_DONE;)
        count += token == WJB_KEY;
    return count;
}

// The body as JSON in the server's encoding. Raises an error where jsonb refuses it; returns nullptr where it has two members
// of one name, of which jsonb would keep the last.
Jsonb *parse_json(const HttpBody &body) {
    const std::string_view utf8 = bytes_of(body);
    if (utf8.find('\0') != utf8.npos)
        return nullptr;
    const char *string = body.as_text != nullptr
                             ? text_to_cstring(body.as_text)
                             : pg_any_to_server(pnstrdup(utf8.data(), utf8.size()), static_cast<int>(utf8.size()), PG_UTF8);
    Jsonb *document = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(string)));
    return core::count_json_members(string) == count_members(document) ? document : nullptr;
}

// nullptr: the body is no such document, and is compared as bytes.
Jsonb *json_of(const HttpBody &body) {
    Jsonb *document = nullptr;
    ErrorData *error = try_in_subtransaction([&] { return (document = parse_json(body)) != nullptr; });
    const int category = error == nullptr ? 0 : ERRCODE_TO_CATEGORY(error->sqlerrcode);
    if (error != nullptr && category != ERRCODE_DATA_EXCEPTION && category != ERRCODE_PROGRAM_LIMIT_EXCEEDED)
        ReThrowError(error);
    return error == nullptr ? document : nullptr;
}

bool is_json(const HttpRequest &request) {
    return request.content_type != nullptr && !request.body.is_absent() &&
           core::is_json_media_type({VARDATA_ANY(request.content_type), VARSIZE_ANY_EXHDR(request.content_type)});
}

} // namespace

// No method contains a blank and no text a zero byte, so different requests have different bytes.
const bytea *request_fingerprint(const HttpRequest &request, const HttpPolicy &policy) {
    const int parts = policy.fingerprint_of;
    const bool is_digest = request.digest != nullptr, may_be_json = policy.compares_json && !is_digest && (parts & body_part);
    Jsonb *document = may_be_json && is_json(request) ? json_of(request.body) : nullptr;
    const std::string_view method(VARDATA_ANY(request.method), VARSIZE_ANY_EXHDR(request.method));
    const std::string_view body = is_digest ? std::string_view(VARDATA_ANY(request.digest), VARSIZE_ANY_EXHDR(request.digest))
                                  : (parts & body_part) && document == nullptr ? bytes_of(request.body)
                                                                               : ""sv;
    const std::string_view pieces[] = {parts & method_part ? method : ""sv,
                                       " "sv,
                                       (parts & route_part) && !is_digest ? as_utf8(request.route) : ""sv,
                                       "\0"sv,
                                       !may_be_json          ? ""sv
                                       : document != nullptr ? "j"sv
                                                             : "b"sv,
                                       body};
    return fingerprint_of_pieces(version_of(parts, is_digest, policy.compares_json), pieces, lengthof(pieces), document);
}

} // namespace idem
