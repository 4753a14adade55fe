// One-time tokens as texts: base64url of
//   version (1 byte) | key id (4) | expiry (8, microseconds of database time) | nonce (16) | MAC (32)
// with numbers in network order. The MAC is HMAC-SHA256, with the secret of that key id, over what precedes it and then the
// scope and the subject, each behind its length (4 bytes): those two are bound by the token, but not in it.
#pragma once

#include "key_state.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace idem::core {

inline constexpr std::uint8_t kTokenVersion = 1;
inline constexpr int kNonceBytes = 16;
inline constexpr int kMacBytes = 32;
inline constexpr int kSignedBytes = 1 + 4 + 8 + kNonceBytes;
inline constexpr int kTokenBytes = kSignedBytes + kMacBytes;
inline constexpr int kTokenChars = (kTokenBytes * 8 + 5) / 6;
inline constexpr int kRedemptionChars = ((8 + kNonceBytes) * 8 + 5) / 6;

using Mac = std::array<std::uint8_t, kMacBytes>;

struct Token {
    std::uint32_t key_id;
    Micros expires_at;
    std::array<std::uint8_t, kNonceBytes> nonce;
    Mac mac;
};

enum class TokenOutcome : int { accepted, duplicate, in_flight, expired, invalid };
inline constexpr int kTokenOutcomes = 5;

// What the MAC covers of the token itself.
std::array<std::uint8_t, kSignedBytes> signed_part(const Token &token);

// A length as the MAC covers it.
std::array<std::uint8_t, 4> length_prefix(std::uint32_t length);

std::array<char, kTokenChars> encode_token(const Token &token);

// Nothing for whatever encode_token does not write. The MAC is not looked at.
std::optional<Token> decode_token(std::string_view text);

// The name under which a token is redeemed: expiry and nonce, so that tokens of one time lie side by side in an index.
std::array<char, kRedemptionChars> redemption_name(const Token &token);

// Takes the same time wherever they differ.
bool same_mac(const Mac &left, const Mac &right);

} // namespace idem::core
