// What is read from an Idempotency-Key field is a key that both of its spellings stand for.
#include "core/http_key.hpp"

#include "fuzz.hpp"

#include <string>

namespace {

std::string quoted(std::string_view key) {
    std::string field = "\"";
    for (const char c : key) {
        if (c == '"' || c == '\\')
            field += '\\';
        field += c;
    }
    return field + '"';
}

} // namespace

FUZZ_TARGET(input) {
    using namespace idem::core;
    HttpKey key, again;
    if (!parse_http_key(input.rest(), &key))
        return;
    REQUIRE(key.size >= 1 && key.size <= kMaxHttpKeyBytes);
    bool may_be_bare = true;
    for (const char c : key.text()) {
        REQUIRE(c >= 0x20 && c <= 0x7e);
        may_be_bare = may_be_bare && c != ' ' && c != '"' && c != ',';
    }
    REQUIRE(parse_http_key(quoted(key.text()), &again) && again.text() == key.text());
    REQUIRE(parse_http_key(quoted(key.text()) + ";a=1;b", &again) && again.text() == key.text());
    if (may_be_bare)
        REQUIRE(parse_http_key(key.text(), &again) && again.text() == key.text());
    REQUIRE(!parse_http_key(quoted(key.text()) + ", \"more\"", &again));
}
