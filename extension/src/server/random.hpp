// Random bytes for secrets, from the server's cryptographic generator.
#pragma once

#include "server/pg.hpp"

namespace idem {

void fill_random(void *bytes, Size size);

} // namespace idem
