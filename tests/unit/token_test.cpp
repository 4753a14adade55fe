#include "core/token.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace idem::core {
namespace {

Token sample() {
    Token token{0x01020304, 0x1112131415161718, {}, {}};
    for (std::size_t i = 0; i < token.nonce.size(); i++)
        token.nonce[i] = static_cast<std::uint8_t>(0x20 + i);
    for (std::size_t i = 0; i < token.mac.size(); i++)
        token.mac[i] = static_cast<std::uint8_t>(0x40 + i);
    return token;
}

std::string text_of(const Token &token) {
    const auto characters = encode_token(token);
    return {characters.begin(), characters.end()};
}

void expect_equal(const Token &left, const Token &right) {
    EXPECT_EQ(left.key_id, right.key_id);
    EXPECT_EQ(left.expires_at, right.expires_at);
    EXPECT_EQ(left.nonce, right.nonce);
    EXPECT_EQ(left.mac, right.mac);
}

// The format, for good: tokens outlive the library that issued them.
TEST(Token, HasItsFormat) {
    EXPECT_EQ(text_of(sample()), "AQECAwQREhMUFRYXGCAhIiMkJSYnKCkqKywtLi9AQUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVpbXF1eXw");
    EXPECT_LT(kTokenChars, 128);
}

TEST(Token, ComesBack) {
    const auto decoded = decode_token(text_of(sample()));
    ASSERT_TRUE(decoded);
    expect_equal(*decoded, sample());
    Token odd{0xFFFFFFFF, -1, {}, {}};
    const auto odd_back = decode_token(text_of(odd));
    ASSERT_TRUE(odd_back);
    expect_equal(*odd_back, odd);
}

TEST(Token, MacCoversAllThatIsInFrontOfIt) {
    const auto covered = signed_part(sample());
    ASSERT_EQ(covered.size(), 29u);
    EXPECT_EQ(covered[0], kTokenVersion);
    EXPECT_EQ(covered[1], 0x01);
    EXPECT_EQ(covered[5], 0x11);
    EXPECT_EQ(covered[12], 0x18);
    EXPECT_EQ(covered[13], 0x20);
    EXPECT_EQ(covered[28], 0x2f);
    EXPECT_EQ(length_prefix(0x01020304), (std::array<std::uint8_t, 4>{1, 2, 3, 4}));
}

TEST(Token, OtherVersionsAreRefused) {
    std::string text = text_of(sample());
    text[1] = 'g'; // version 2
    EXPECT_FALSE(decode_token(text));
}

TEST(Token, EveryTruncationAndEveryExtensionIsRefused) {
    const std::string text = text_of(sample());
    for (std::size_t size = 0; size < text.size(); size++) {
        EXPECT_FALSE(decode_token(std::string_view(text).substr(0, size)));
        EXPECT_FALSE(decode_token(std::string_view(text).substr(text.size() - size)));
    }
    for (const char *more : {"A", "=", "==", " ", "\n"})
        EXPECT_FALSE(decode_token(text + more));
    EXPECT_FALSE(decode_token(std::string(1'000'000, 'A')));
}

// Whatever bit of the text is flipped, what is decoded is another token, or none: no two texts are one token.
TEST(Token, EveryFlippedBitMakesAnotherTokenOrNone) {
    const Token token = sample();
    const std::string text = text_of(token);
    for (std::size_t i = 0; i < text.size() * 8; i++) {
        std::string altered = text;
        altered[i / 8] = static_cast<char>(altered[i / 8] ^ 1 << i % 8);
        const auto decoded = decode_token(altered);
        if (!decoded)
            continue;
        EXPECT_EQ(text_of(*decoded), altered);
        EXPECT_TRUE(signed_part(*decoded) != signed_part(token) || !same_mac(decoded->mac, token.mac)) << i;
    }
}

TEST(Token, RandomBytesAreRefusedOrComeBack) {
    std::mt19937 random(9);
    for (int i = 0; i < 200'000; i++) {
        std::string text(random() % 2 == 0 ? kTokenChars : random() % 200, '\0');
        const bool from_alphabet = random() % 2 == 0;
        for (char &c : text)
            c = from_alphabet ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[random() % 64]
                              : static_cast<char>(random());
        if (const auto decoded = decode_token(text)) {
            ASSERT_EQ(text_of(*decoded), text);
        }
    }
}

TEST(Token, RedemptionNamesDifferAndAreOrderedByExpiry) {
    Token token = sample();
    const auto name = [](const Token &of) {
        const auto characters = redemption_name(of);
        return std::string(characters.begin(), characters.end());
    };
    EXPECT_EQ(name(token), "ERITFBUWFxggISIjJCUmJygpKissLS4v");
    Token other = token;
    other.nonce[15] ^= 1;
    EXPECT_NE(name(other), name(token));
    other = token;
    other.expires_at += 1;
    EXPECT_NE(name(other), name(token));
    EXPECT_EQ(name(other).substr(0, 8), name(token).substr(0, 8));
}

} // namespace
} // namespace idem::core
