// Compares and hashes texts and byteas by their bytes, as the "C" collation does. REQUIRES: detoasted values; short headers are
// allowed.
#pragma once

#include "server/pg.hpp"

namespace idem {

// As memcmp for two values of these sizes, quick where the first eight bytes decide.
inline int compare_bytes(const char *left, Size left_size, const char *right, Size right_size) {
    if (left_size >= sizeof(uint64) && right_size >= sizeof(uint64)) {
        uint64 left_head, right_head;
        memcpy(&left_head, left, sizeof left_head);
        memcpy(&right_head, right, sizeof right_head);
        if (left_head != right_head)
            return pg_ntoh64(left_head) < pg_ntoh64(right_head) ? -1 : 1;
    }
    const int order = memcmp(left, right, Min(left_size, right_size));
    return order != 0 ? order : left_size < right_size ? -1 : left_size > right_size;
}

inline int compare_bytes(const void *left, const void *right) {
    return compare_bytes(VARDATA_ANY(left), VARSIZE_ANY_EXHDR(left), VARDATA_ANY(right), VARSIZE_ANY_EXHDR(right));
}

// `stored` may be toasted.
inline bool equal_bytes(Datum stored, const void *value) { return compare_bytes(PG_DETOAST_DATUM_PACKED(stored), value) == 0; }

// 64 bits, mixed with `seed`. The filters of rings and the leases of the outbox store such hashes.
inline uint64 hash_of_bytes(const void *bytes, Size size, uint64 seed = 0) {
    return hash_bytes_extended(static_cast<const unsigned char *>(bytes), static_cast<int>(size), seed);
}

inline uint64 hash_of_bytes(const text *value, uint64 seed = 0) {
    return hash_of_bytes(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), seed);
}

// Of (scope, key).
inline uint64 hash_of(const text *scope, const text *key, uint64 seed = 0) {
    return hash_of_bytes(key, hash_of_bytes(scope, seed));
}

} // namespace idem
