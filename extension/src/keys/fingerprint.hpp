// Fingerprints, for functions that compute one from several arguments.
#pragma once

#include "server/pg.hpp"

#include <string_view>

namespace idem {

// Writes the SHA-256 of `data` to `digest`, PG_SHA256_DIGEST_LENGTH bytes.
void sha256_of(const void *data, Size size, uint8 *digest);

// Returns the idem_fingerprint_bytes of the concatenated pieces.
bytea *fingerprint_of_pieces(const std::string_view *pieces, int count);

} // namespace idem
