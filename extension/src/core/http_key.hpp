// The key in an Idempotency-Key header field.
//
// draft-ietf-httpapi-idempotency-key-header makes the field a Structured Field whose item is a string (RFC 9651, formerly RFC
// 8941), as in `"8e03978e-40d5"`, possibly with parameters, which carry no meaning and are ignored. Many clients in use send
// the key without quotes. Both spell the same key.
#pragma once

#include <cstddef>
#include <string_view>

namespace idem::core {

inline constexpr std::size_t kMaxHttpKeyBytes = 1024;

struct HttpKey {
    std::size_t size;
    char bytes[kMaxHttpKeyBytes]; // the first `size` of them, all of them printable ASCII
    std::string_view text() const { return {bytes, size}; }
};

// Reads a field value. False when it is neither a Structured Fields string nor, without quotes, visible ASCII characters other
// than '"' and ',' (a list, or two header lines that were joined); or when the key is empty or has more than
// kMaxHttpKeyBytes bytes. Spaces and tabs around the value do not matter.
bool parse_http_key(std::string_view field, HttpKey *key) noexcept;

} // namespace idem::core
