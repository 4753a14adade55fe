#include "core/token.hpp"

#include "core/base64url.hpp"

#include <algorithm>

namespace idem::core {

namespace {

template <typename Number> std::uint8_t *put(std::uint8_t *out, Number number) {
    for (int shift = 8 * (sizeof number - 1); shift >= 0; shift -= 8)
        *out++ = static_cast<std::uint8_t>(number >> shift);
    return out;
}

template <typename Number> Number get(const std::uint8_t *bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < sizeof(Number); i++)
        number = number << 8 | bytes[i];
    return static_cast<Number>(number);
}

} // namespace

std::array<std::uint8_t, kSignedBytes> signed_part(const Token &token) {
    std::array<std::uint8_t, kSignedBytes> bytes;
    std::uint8_t *out = put(bytes.data(), kTokenVersion);
    out = put(out, token.key_id);
    out = put(out, token.expires_at);
    std::copy(token.nonce.begin(), token.nonce.end(), out);
    return bytes;
}

std::array<std::uint8_t, 4> length_prefix(std::uint32_t length) {
    std::array<std::uint8_t, 4> bytes;
    put(bytes.data(), length);
    return bytes;
}

std::array<char, kTokenChars> encode_token(const Token &token) {
    std::array<std::uint8_t, kTokenBytes> bytes;
    const auto head = signed_part(token);
    std::copy(token.mac.begin(), token.mac.end(), std::copy(head.begin(), head.end(), bytes.begin()));
    std::array<char, kTokenChars> text;
    encode_base64url(bytes.data(), bytes.size(), text.data());
    return text;
}

std::optional<Token> decode_token(std::string_view text) {
    std::array<std::uint8_t, kTokenBytes> bytes;
    if (!decode_base64url(text, bytes.data(), bytes.size()) || bytes[0] != kTokenVersion)
        return std::nullopt;
    Token token;
    token.key_id = get<std::uint32_t>(&bytes[1]);
    token.expires_at = get<Micros>(&bytes[5]);
    std::copy_n(&bytes[13], kNonceBytes, token.nonce.begin());
    std::copy_n(&bytes[kSignedBytes], kMacBytes, token.mac.begin());
    return token;
}

std::array<char, kRedemptionChars> redemption_name(const Token &token) {
    std::array<std::uint8_t, 8 + kNonceBytes> bytes;
    std::copy(token.nonce.begin(), token.nonce.end(), put(bytes.data(), token.expires_at));
    std::array<char, kRedemptionChars> name;
    encode_base64url(bytes.data(), bytes.size(), name.data());
    return name;
}

} // namespace idem::core
