// Message authentication codes of 32 bytes, as HMAC-SHA256 makes them, and the texts that stand for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace idem::core {

inline constexpr int kMacBytes = 32;
using Mac = std::array<std::uint8_t, kMacBytes>;

// Constant time: the duration does not depend on where the two differ.
bool same_mac(const Mac &left, const Mac &right);

// Return false unless the text is exactly one MAC: hexadecimal digits of either case, or base64 as read_base64 reads it.
bool read_hex_mac(std::string_view text, Mac *mac) noexcept;
bool read_base64_mac(std::string_view text, Mac *mac) noexcept;

// Reads base64 with the alphabet of RFC 4648, section 4, padded or not, and returns the number of bytes. Returns nullopt for
// any other text, and for more than `capacity` bytes. Bits that are left over are ignored: secrets in use have them.
std::optional<std::size_t> read_base64(std::string_view text, std::uint8_t *out, std::size_t capacity) noexcept;

} // namespace idem::core
