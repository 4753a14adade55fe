// The key in an Idempotency-Key header field.
//
// draft-ietf-httpapi-idempotency-key-header defines the field as a Structured Field whose item is a string (RFC 9651, formerly
// RFC 8941), as in `"8e03978e-40d5"`. Parameters may follow; they have no meaning and are ignored. Many clients send the key
// without quotes. Both spellings are the same key.
#pragma once

#include <cstddef>
#include <string_view>

namespace idem::core {

inline constexpr std::size_t kMaxHttpKeyBytes = 1024;

// string_or_bare: a Structured Fields string, or the key without quotes. opaque: the field value is the key, quotes and all.
enum class HttpKeySyntax { string_or_bare, string, opaque };

struct HttpKey {
    std::size_t size;
    char bytes[kMaxHttpKeyBytes]; // the first `size` are set; printable ASCII unless opaque
    std::string_view text() const { return {bytes, size}; }
};

// Reads a field value; spaces and tabs around it do not matter. Returns false when the key is empty or has more than
// kMaxHttpKeyBytes bytes. Also returns false when the value is not of the syntax: unquoted text is visible ASCII, and must not
// contain '"' or ',', as a comma means a list, or two header lines that were joined; an opaque key has no control characters.
bool parse_http_key(std::string_view field, HttpKeySyntax syntax, HttpKey *key) noexcept;

} // namespace idem::core
