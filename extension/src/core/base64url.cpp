#include "base64url.hpp"

namespace idem::core {

namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// The six bits of a character, or -1.
int bits_of(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

} // namespace

void encode_base64url(const std::uint8_t *bytes, std::size_t size, char *out) {
    unsigned pending = 0;
    int count = 0;
    for (std::size_t i = 0; i < size; i++) {
        pending = pending << 8 | bytes[i];
        for (count += 8; count >= 6; count -= 6)
            *out++ = kAlphabet[pending >> (count - 6) & 63];
    }
    if (count > 0)
        *out = kAlphabet[pending << (6 - count) & 63];
}

bool decode_base64url(std::string_view text, std::uint8_t *out, std::size_t size) {
    if (text.size() != base64url_size(size))
        return false;
    unsigned pending = 0;
    int count = 0;
    for (const char c : text) {
        const int bits = bits_of(c);
        if (bits < 0)
            return false;
        pending = pending << 6 | static_cast<unsigned>(bits);
        count += 6;
        if (count >= 8) {
            count -= 8;
            *out++ = static_cast<std::uint8_t>(pending >> count);
        }
    }
    return (pending & ((1u << count) - 1)) == 0;
}

} // namespace idem::core
