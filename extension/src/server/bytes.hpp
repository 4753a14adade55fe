// Compares texts and byteas by their bytes, as the "C" collation does. REQUIRES: detoasted values; short headers are allowed.
#pragma once

#include "server/pg.hpp"

namespace idem {

inline int compare_bytes(const void *left, const void *right) {
    const auto left_size = VARSIZE_ANY_EXHDR(left);
    const auto right_size = VARSIZE_ANY_EXHDR(right);
    const int order = memcmp(VARDATA_ANY(left), VARDATA_ANY(right), Min(left_size, right_size));
    return order != 0 ? order : left_size < right_size ? -1 : left_size > right_size;
}

// `stored` may be toasted.
inline bool equal_bytes(Datum stored, const void *value) { return compare_bytes(PG_DETOAST_DATUM_PACKED(stored), value) == 0; }

} // namespace idem
