// Fingerprints, for functions that make one of more than one argument.
#pragma once

#include "server/pg.hpp"

#include <string_view>

namespace idem {

// The SHA-256 of some bytes: PG_SHA256_DIGEST_LENGTH of them, into `digest`.
void sha256_of(const void *data, Size size, uint8 *digest);

// What idem_fingerprint_bytes makes of the pieces, joined without anything in between.
bytea *fingerprint_of_pieces(const std::string_view *pieces, int count);

} // namespace idem
