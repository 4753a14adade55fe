// HMAC-SHA256 by the server's own implementation (common/hmac.h).
#pragma once

#include "core/mac.hpp"
#include "server/pg.hpp"

namespace idem {

inline constexpr int kSecretBytes = 32;

// A longer key has the same MACs as its SHA-256 (RFC 2104).
inline constexpr int kMaxHmacKeyBytes = 64;

struct Bytes {
    const void *data;
    Size size;
};

// The MAC of `first` and then `second`. REQUIRES: key.size <= kMaxHmacKeyBytes.
//
// The last key is cached, also in its digested form. With OpenSSL 3, setting a key costs several times as much as the MAC of a
// token, because it looks up the digest's implementation again.
core::Mac hmac(Bytes key, Bytes first, Bytes second);

} // namespace idem
