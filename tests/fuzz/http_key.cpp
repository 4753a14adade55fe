// What is read from an Idempotency-Key field is a key that each of its spellings in that syntax stands for.
#include "core/http_key.hpp"

#include "fuzz.hpp"

#include <algorithm>
#include <string>

namespace {

using namespace idem::core;

std::string quoted(std::string_view key) {
    std::string field = "\"";
    for (const char c : key) {
        if (c == '"' || c == '\\')
            field += '\\';
        field += c;
    }
    return field + '"';
}

void check_string_or_bare(std::string_view field) {
    constexpr auto both = HttpKeySyntax::string_or_bare, string = HttpKeySyntax::string;
    HttpKey key, again;
    const bool is_string = parse_http_key(field, string, &again);
    if (!parse_http_key(field, both, &key)) {
        REQUIRE(!is_string);
        return;
    }
    REQUIRE(!is_string || again.text() == key.text());
    REQUIRE(key.size >= 1 && key.size <= kMaxHttpKeyBytes);
    bool may_be_bare = true;
    for (const char c : key.text()) {
        REQUIRE(c >= 0x20 && c <= 0x7e);
        may_be_bare = may_be_bare && c != ' ' && c != '"' && c != ',';
    }
    REQUIRE(parse_http_key(quoted(key.text()), string, &again) && again.text() == key.text());
    REQUIRE(parse_http_key(quoted(key.text()) + ";a=1;b", string, &again) && again.text() == key.text());
    if (may_be_bare)
        REQUIRE(parse_http_key(key.text(), both, &again) && again.text() == key.text());
    REQUIRE(!parse_http_key(key.text(), string, &again) || again.text() != key.text());
    REQUIRE(!parse_http_key(quoted(key.text()) + ", \"more\"", both, &again));
}

void check_opaque(std::string_view field) {
    HttpKey key, again;
    if (!parse_http_key(field, HttpKeySyntax::opaque, &key))
        return;
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    REQUIRE(key.size >= 1 && key.size <= kMaxHttpKeyBytes);
    REQUIRE(field.find(key.text()) != field.npos && std::none_of(key.text().begin(), key.text().end(), is_control));
    REQUIRE(parse_http_key(key.text(), HttpKeySyntax::opaque, &again) && again.text() == key.text());
}

} // namespace

FUZZ_TARGET(input) {
    const std::string_view field = input.rest();
    check_string_or_bare(field);
    check_opaque(field);
}
