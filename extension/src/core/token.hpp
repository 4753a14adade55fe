// One-time tokens as texts: base64url of
//   version (1 byte) | key id (4) | expiry (8, microseconds of database time) | nonce (16) | MAC (32)
// with numbers in network order. The MAC is HMAC-SHA256 with the secret of that key id. It covers the preceding fields, then
// the scope and the subject, each after its length (4 bytes). The token is bound to those two but does not contain them.
#pragma once

#include "core/key_state.hpp"
#include "core/mac.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace idem::core {

inline constexpr std::uint8_t kTokenVersion = 1;
inline constexpr int kNonceBytes = 16;
inline constexpr int kSignedBytes = 1 + 4 + 8 + kNonceBytes;
inline constexpr int kTokenBytes = kSignedBytes + kMacBytes;
inline constexpr int kTokenChars = (kTokenBytes * 8 + 5) / 6;
inline constexpr int kRedemptionChars = ((8 + kNonceBytes) * 8 + 5) / 6;

struct Token {
    std::uint32_t key_id;
    Micros expires_at;
    std::array<std::uint8_t, kNonceBytes> nonce;
    Mac mac;
};

enum class TokenOutcome : int { accepted, duplicate, in_flight, expired, invalid };
inline constexpr int kTokenOutcomes = 5;

// The token's own part of the MAC's input.
std::array<std::uint8_t, kSignedBytes> signed_part(const Token &token);

// A length in the MAC's input.
std::array<std::uint8_t, 4> length_prefix(std::uint32_t length);

std::array<char, kTokenChars> encode_token(const Token &token);

// Returns nullopt for any text that encode_token does not write. Does not check the MAC.
std::optional<Token> decode_token(std::string_view text);

// The name of the token's redemption: expiry and nonce, so that tokens with the same expiry are adjacent in an index.
std::array<char, kRedemptionChars> redemption_name(const Token &token);

} // namespace idem::core
