#include "core/base64url.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace idem::core {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::string encode(const Bytes &bytes) {
    std::string text(base64url_size(bytes.size()), '?');
    encode_base64url(bytes.data(), bytes.size(), text.data());
    return text;
}

bool decodes(std::string_view text, std::size_t size) {
    Bytes bytes(size + 1, 0xAA);
    const bool decoded = decode_base64url(text, bytes.data(), size);
    EXPECT_EQ(bytes[size], 0xAA) << "wrote beyond the end";
    return decoded;
}

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

// RFC 4648, section 10, without the padding.
TEST(Base64Url, IsThatOfTheStandard) {
    EXPECT_EQ(encode(bytes_of("")), "");
    EXPECT_EQ(encode(bytes_of("f")), "Zg");
    EXPECT_EQ(encode(bytes_of("fo")), "Zm8");
    EXPECT_EQ(encode(bytes_of("foo")), "Zm9v");
    EXPECT_EQ(encode(bytes_of("foobar")), "Zm9vYmFy");
    EXPECT_EQ(encode({0xfb, 0xff, 0xbf}), "-_-_");
}

TEST(Base64Url, ComesBack) {
    std::mt19937 random(1);
    for (std::size_t size = 0; size < 70; size++) {
        Bytes bytes(size);
        for (auto &byte : bytes)
            byte = static_cast<std::uint8_t>(random());
        Bytes back(size);
        ASSERT_TRUE(decode_base64url(encode(bytes), back.data(), size));
        EXPECT_EQ(back, bytes);
    }
}

TEST(Base64Url, RefusesOtherLengths) {
    EXPECT_FALSE(decodes("Zm9", 3));
    EXPECT_FALSE(decodes("Zm9vY", 3));
    EXPECT_FALSE(decodes("", 1));
    EXPECT_FALSE(decodes("Z", 1));
    EXPECT_FALSE(decodes("Zg==", 1));
}

TEST(Base64Url, RefusesOtherCharacters) {
    for (int c = 0; c < 256; c++) {
        const bool known = std::isalnum(c) != 0 || c == '-' || c == '_';
        EXPECT_EQ(decodes(std::string{'Z', static_cast<char>(c), '9', 'v'}, 3), known) << c;
    }
}

// Else several texts would stand for one value.
TEST(Base64Url, RefusesBitsLeftOver) {
    EXPECT_TRUE(decodes("Zg", 1));
    EXPECT_FALSE(decodes("Zh", 1));
    EXPECT_FALSE(decodes("Zv", 1));
    EXPECT_TRUE(decodes("Zm8", 2));
    EXPECT_FALSE(decodes("Zm9", 2));
}

} // namespace
} // namespace idem::core
