#include "server/random.hpp"

#include <unistd.h>

namespace idem {

void fill_random(void *bytes, Size size) {
    if (getentropy(bytes, size) != 0 && !pg_strong_random(bytes, size))
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
}

} // namespace idem
