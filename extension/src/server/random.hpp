// Random bytes that nobody can predict.
#pragma once

#include "server/pg.hpp"

namespace idem {

// From the server's generator.
void fill_random(void *bytes, Size size);

} // namespace idem
