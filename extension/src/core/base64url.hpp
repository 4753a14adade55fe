// Base64 with the URL-safe alphabet and without padding (RFC 4648, section 5). Each text decodes to at most one value, and each
// value has exactly one text. Decoding rejects stray characters, impossible lengths and leftover bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace idem::core {

inline constexpr std::size_t base64url_size(std::size_t bytes) { return (bytes * 8 + 5) / 6; }

// Writes base64url_size(size) characters.
void encode_base64url(const std::uint8_t *bytes, std::size_t size, char *out);

// Writes `size` bytes. Returns false when `text` does not encode exactly that many.
bool decode_base64url(std::string_view text, std::uint8_t *out, std::size_t size);

} // namespace idem::core
