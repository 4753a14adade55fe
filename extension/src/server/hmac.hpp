// HMAC-SHA256 by the server's own crypto (common/hmac.h).
#pragma once

#include "core/token.hpp"
#include "server/pg.hpp"

namespace idem {

inline constexpr int kSecretBytes = 32;

// A longer key has the same MACs as its SHA-256 (RFC 2104).
inline constexpr int kMostHmacKeyBytes = 64;

struct Bytes {
    const void *at;
    Size size;
};

// The MAC of `first` and then `second`. REQUIRES: key.size <= kMostHmacKeyBytes.
//
// The key that was used last is kept, in its digested form too: with OpenSSL 3, taking up a key costs several times what the
// MAC of a token does, for the digest's implementation is looked up anew.
core::Mac hmac(Bytes key, Bytes first, Bytes second);

} // namespace idem
