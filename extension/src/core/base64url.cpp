#include "core/base64url.hpp"

#include <array>

namespace idem::core {

namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr std::uint8_t kInvalidDigit = 0x80;

// The six-bit value of each character.
constexpr std::array<std::uint8_t, 256> kDigits = [] {
    std::array<std::uint8_t, 256> digits{};
    digits.fill(kInvalidDigit);
    for (std::uint8_t i = 0; i < 64; i++)
        digits[static_cast<unsigned char>(kAlphabet[i])] = i;
    return digits;
}();

unsigned digit(char c) { return kDigits[static_cast<unsigned char>(c)]; }

} // namespace

void encode_base64url(const std::uint8_t *bytes, std::size_t size, char *out) {
    for (; size >= 3; size -= 3, bytes += 3) {
        const unsigned three = bytes[0] << 16 | bytes[1] << 8 | bytes[2];
        *out++ = kAlphabet[three >> 18];
        *out++ = kAlphabet[three >> 12 & 63];
        *out++ = kAlphabet[three >> 6 & 63];
        *out++ = kAlphabet[three & 63];
    }
    if (size == 0)
        return;
    const unsigned rest = bytes[0] << 16 | (size == 2 ? bytes[1] << 8 : 0);
    *out++ = kAlphabet[rest >> 18];
    *out++ = kAlphabet[rest >> 12 & 63];
    if (size == 2)
        *out++ = kAlphabet[rest >> 6 & 63];
}

bool decode_base64url(std::string_view text, std::uint8_t *out, std::size_t size) {
    if (text.size() != base64url_size(size))
        return false;
    const char *in = text.data();
    unsigned all_digits = 0;
    for (; size >= 3; size -= 3, in += 4) {
        const unsigned digits[] = {digit(in[0]), digit(in[1]), digit(in[2]), digit(in[3])};
        all_digits |= digits[0] | digits[1] | digits[2] | digits[3];
        const unsigned three = digits[0] << 18 | digits[1] << 12 | digits[2] << 6 | digits[3];
        *out++ = static_cast<std::uint8_t>(three >> 16);
        *out++ = static_cast<std::uint8_t>(three >> 8);
        *out++ = static_cast<std::uint8_t>(three);
    }
    unsigned left_over = 0;
    if (size > 0) {
        const unsigned digits[] = {digit(in[0]), digit(in[1]), size == 2 ? digit(in[2]) : 0};
        all_digits |= digits[0] | digits[1] | digits[2];
        const unsigned rest = digits[0] << 18 | digits[1] << 12 | digits[2] << 6;
        *out++ = static_cast<std::uint8_t>(rest >> 16);
        if (size == 2)
            *out++ = static_cast<std::uint8_t>(rest >> 8);
        left_over = rest & (size == 2 ? 0xFF : 0xFFFF);
    }
    return (all_digits & kInvalidDigit) == 0 && left_over == 0;
}

} // namespace idem::core
