// Tokens: whatever is decoded is written again as it was; a token that was altered in any place is no token any more, or one
// whose MAC is wrong; and the MAC covers all that makes one token differ from another.
#include "core/token.hpp"

#include "fuzz.hpp"

#include <map>

namespace {

using namespace idem;
using core::Token;

// Stands in for HMAC-SHA256, the server's: what matters here is what it is given.
core::Mac mac_of(const Token &token, std::string_view scope, std::string_view subject) {
    std::string covered;
    const auto add = [&](const auto &bytes) { covered.append(bytes.begin(), bytes.end()); };
    add(core::signed_part(token));
    add(core::length_prefix(static_cast<std::uint32_t>(scope.size())));
    add(scope);
    add(core::length_prefix(static_cast<std::uint32_t>(subject.size())));
    add(subject);
    core::Mac mac;
    for (std::size_t i = 0; i < mac.size(); i += 8) {
        std::uint64_t hash = 0x9E3779B97F4A7C15 * (i + 1);
        for (const char c : covered) {
            hash = (hash ^ static_cast<unsigned char>(c)) * 0xBF58476D1CE4E5B9;
            hash ^= hash >> 27;
        }
        for (std::size_t byte = 0; byte < 8; byte++)
            mac[i + byte] = static_cast<std::uint8_t>(hash >> 8 * byte);
    }
    return mac;
}

std::string text_of(const Token &token) {
    const auto text = core::encode_token(token);
    return {text.begin(), text.end()};
}

bool is_valid(std::string_view text, std::string_view scope, std::string_view subject) {
    const auto token = core::decode_token(text);
    return token && core::same_mac(mac_of(*token, scope, subject), token->mac);
}

bool same(const Token &left, const Token &right) {
    return left.key_id == right.key_id && left.expires_at == right.expires_at && left.nonce == right.nonce &&
           left.mac == right.mac;
}

std::string name_of(const Token &token) {
    const auto name = core::redemption_name(token);
    return {name.begin(), name.end()};
}

template <std::size_t Size> void fill(std::array<std::uint8_t, Size> &bytes, std::string_view from) {
    bytes.fill(0);
    std::copy_n(from.begin(), std::min(from.size(), Size), bytes.begin());
}

Token token_from(idem::fuzz::Input &input) {
    Token token;
    token.key_id = input.number<std::uint32_t>();
    token.expires_at = input.number<std::int64_t>();
    fill(token.nonce, input.take(core::kNonceBytes));
    return token;
}

void check_any_text(std::string_view text) {
    if (const auto token = core::decode_token(text)) {
        REQUIRE(text.size() == core::kTokenChars);
        REQUIRE(text_of(*token) == text);
    }
}

void check_altered(const std::string &text, std::string_view scope, std::string_view subject, idem::fuzz::Input &input) {
    for (std::size_t i = 0; i < text.size(); i++) {
        std::string altered = text;
        const auto change = static_cast<unsigned char>(1 + input.below(255));
        altered[i] = static_cast<char>(static_cast<unsigned char>(altered[i]) ^ change);
        REQUIRE(!is_valid(altered, scope, subject));
        altered = text.substr(0, i) + text.substr(i + 1);
        REQUIRE(!is_valid(altered, scope, subject));
        altered = text;
        altered.insert(i, 1, static_cast<char>(input.number<std::uint8_t>()));
        REQUIRE(!is_valid(altered, scope, subject));
    }
    const std::string_view more = input.text(8);
    REQUIRE(more.empty() || !is_valid(text + std::string(more), scope, subject));
}

} // namespace

FUZZ_TARGET(input) {
    if (input.flag())
        return check_any_text(input.rest());
    Token token = token_from(input);
    const std::string_view scope = input.text(255), subject = input.text(255);
    const std::string_view other_scope = input.text(255), other_subject = input.text(255);
    token.mac = mac_of(token, scope, subject);

    const std::string text = text_of(token);
    const auto decoded = core::decode_token(text);
    REQUIRE(decoded && same(*decoded, token));
    REQUIRE(is_valid(text, scope, subject));
    REQUIRE(is_valid(text, other_scope, other_subject) == (scope == other_scope && subject == other_subject));
    check_altered(text, scope, subject, input);

    // Two tokens share a name, or a signature, only if they are one; names sort by expiry.
    const Token other = token_from(input);
    const bool same_name = token.expires_at == other.expires_at && token.nonce == other.nonce;
    REQUIRE((name_of(token) == name_of(other)) == same_name);
    REQUIRE((core::signed_part(token) == core::signed_part(other)) == (same_name && token.key_id == other.key_id));
}
