#include "core/mac.hpp"

#include <cstring>

namespace idem::core {

namespace {

// The value of a digit, or -1.
int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

} // namespace

bool same_mac(const Mac &left, const Mac &right) {
    std::array<std::uint64_t, kMacBytes / 8> left_words, right_words;
    std::memcpy(left_words.data(), left.data(), kMacBytes);
    std::memcpy(right_words.data(), right.data(), kMacBytes);
    volatile std::uint64_t difference = 0;
    for (std::size_t i = 0; i < left_words.size(); i++)
        difference = difference | (left_words[i] ^ right_words[i]);
    return difference == 0;
}

bool read_hex_mac(std::string_view text, Mac *mac) noexcept {
    if (text.size() != mac->size() * 2)
        return false;
    for (std::size_t i = 0; i < mac->size(); i++) {
        const int high = hex_digit(text[2 * i]);
        const int low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        (*mac)[i] = static_cast<std::uint8_t>(high << 4 | low);
    }
    return true;
}

bool read_base64_mac(std::string_view text, Mac *mac) noexcept {
    return read_base64(text, mac->data(), mac->size()) == mac->size();
}

std::optional<std::size_t> read_base64(std::string_view text, std::uint8_t *out, std::size_t capacity) noexcept {
    if (text.size() % 4 == 0)
        for (int i = 0; i < 2 && text.ends_with('='); i++)
            text.remove_suffix(1);
    if (text.size() % 4 == 1 || text.size() * 3 / 4 > capacity)
        return std::nullopt;
    std::size_t size = 0;
    unsigned bits = 0; // the last digits, the lowest `pending` bits of which are not written
    int pending = 0;
    for (const char c : text) {
        const int value = base64_digit(c);
        if (value < 0)
            return std::nullopt;
        bits = (bits << 6 | static_cast<unsigned>(value)) & 0xFFFF;
        pending += 6;
        if (pending >= 8)
            out[size++] = static_cast<std::uint8_t>(bits >> (pending -= 8));
    }
    return size;
}

} // namespace idem::core
