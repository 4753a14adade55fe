// base64url against its definition, bit by bit: one text for each value, one value for each text.
#include "core/base64url.hpp"

#include "fuzz.hpp"

#include <optional>
#include <vector>

namespace {

using namespace idem;
using Bytes = std::vector<std::uint8_t>;

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string encode(const Bytes &bytes) {
    std::string text(core::base64url_size(bytes.size()), '\0');
    core::encode_base64url(bytes.data(), bytes.size(), text.data());
    return text;
}

std::optional<Bytes> decode(std::string_view text, std::size_t size) {
    Bytes bytes(size);
    if (!core::decode_base64url(text, bytes.data(), size))
        return std::nullopt;
    return bytes;
}

std::vector<bool> bits_of(const Bytes &bytes) {
    std::vector<bool> bits;
    for (const auto byte : bytes)
        for (int i = 7; i >= 0; i--)
            bits.push_back((byte >> i & 1) != 0);
    return bits;
}

// The bits of the text's characters; nothing where one is not of the alphabet.
std::optional<std::vector<bool>> bits_of(std::string_view text) {
    std::vector<bool> bits;
    for (const char c : text) {
        const auto digit = kAlphabet.find(c);
        if (digit == std::string_view::npos)
            return std::nullopt;
        for (int i = 5; i >= 0; i--)
            bits.push_back((digit >> i & 1) != 0);
    }
    return bits;
}

// What `text` is as `size` bytes: no character too few or too many, and nothing but zeros in what is left over.
std::optional<std::vector<bool>> meaning(std::string_view text, std::size_t size) {
    auto bits = bits_of(text);
    if (!bits || bits->size() < size * 8 || bits->size() >= size * 8 + 6)
        return std::nullopt;
    if (std::find(bits->begin() + static_cast<std::ptrdiff_t>(size * 8), bits->end(), true) != bits->end())
        return std::nullopt;
    bits->resize(size * 8);
    return bits;
}

} // namespace

FUZZ_TARGET(input) {
    const std::string_view given = input.rest();

    const Bytes bytes(given.begin(), given.end());
    const std::string text = encode(bytes);
    REQUIRE(decode(text, bytes.size()) == bytes);
    REQUIRE(meaning(text, bytes.size()) == bits_of(bytes));

    const std::size_t fitting = given.size() * 6 / 8;
    for (const std::size_t size : {fitting, fitting + 1, fitting - std::min<std::size_t>(fitting, 1)}) {
        const auto decoded = decode(given, size);
        const auto expected = meaning(given, size);
        REQUIRE(decoded.has_value() == expected.has_value());
        if (decoded) {
            REQUIRE(bits_of(*decoded) == *expected);
            REQUIRE(encode(*decoded) == given);
        }
    }
}
