#include "server/random.hpp"

namespace idem {

namespace {

// What is left of the last helping. A backend is forked from a postmaster that never takes one.
struct Helping {
    uint8 bytes[512];
    Size left;
};
constinit Helping helping{};

} // namespace

void fill_random(void *bytes, Size size) {
    if (!pg_strong_random(bytes, size))
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
}

void fill_nonce(void *bytes, Size size) {
    if (helping.left < size) {
        helping.left = 0;
        fill_random(helping.bytes, sizeof helping.bytes);
        helping.left = sizeof helping.bytes;
    }
    helping.left -= size;
    memcpy(bytes, helping.bytes + helping.left, size);
    // What was handed out is not to be read from a core dump later.
    explicit_bzero(helping.bytes + helping.left, size);
}

} // namespace idem
