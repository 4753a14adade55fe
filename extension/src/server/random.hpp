// Random bytes for secrets and identifiers, from the kernel's generator. The generator of OpenSSL, which pg_strong_random asks,
// takes several times as long for a few bytes; it serves where the kernel has none.
#pragma once

#include "server/pg.hpp"

namespace idem {

// At most 256 bytes.
void fill_random(void *bytes, Size size);

} // namespace idem
