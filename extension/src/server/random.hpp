// Random bytes that nobody can foretell.
#pragma once

#include "server/pg.hpp"

namespace idem {

// From the server's generator. For secrets.
void fill_random(void *bytes, Size size);

// For what everybody gets to see (nonces, UUIDs): the same, but asked for many bytes at a time, as asking costs more than the
// bytes do. REQUIRES: size <= 64.
void fill_nonce(void *bytes, Size size);

} // namespace idem
