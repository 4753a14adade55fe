// Base64 with the URL-safe alphabet and without padding (RFC 4648, section 5). Each text decodes to at most one value and each
// value has exactly one text: a stray character, a length that cannot be and bits left over are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace idem::core {

inline constexpr std::size_t base64url_size(std::size_t bytes) { return (bytes * 8 + 5) / 6; }

// Writes base64url_size(size) characters.
void encode_base64url(const std::uint8_t *bytes, std::size_t size, char *out);

// Writes `size` bytes; false when `text` is not the text of that many.
bool decode_base64url(std::string_view text, std::uint8_t *out, std::size_t size);

} // namespace idem::core
