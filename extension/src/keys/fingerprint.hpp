// Fingerprints, for functions that compute one from several arguments.
#pragma once

#include "server/pg.hpp"

#include <string_view>

namespace idem {

// Writes the SHA-256 of `data` to `digest`, PG_SHA256_DIGEST_LENGTH bytes.
void sha256_of(const void *data, Size size, uint8 *digest);

// Returns a version byte and the SHA-256 of the concatenated pieces, then of the document's canonical form, unless it is
// nullptr.
bytea *fingerprint_of_pieces(uint8 version, const std::string_view *pieces, int count, Jsonb *document = nullptr);

} // namespace idem
