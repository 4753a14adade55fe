// Comparing texts and byteas by their bytes, as the "C" collation does. REQUIRES: detoasted values (short headers are fine).
#pragma once

#include "server/pg.hpp"

namespace idem {

inline int compare_bytes(const void *left, const void *right) {
    const auto left_size = VARSIZE_ANY_EXHDR(left);
    const auto right_size = VARSIZE_ANY_EXHDR(right);
    const int order = memcmp(VARDATA_ANY(left), VARDATA_ANY(right), Min(left_size, right_size));
    return order != 0 ? order : left_size < right_size ? -1 : left_size > right_size;
}

// A stored value, which may be toasted, against a given one.
inline bool equal_bytes(Datum stored, const void *given) { return compare_bytes(PG_DETOAST_DATUM_PACKED(stored), given) == 0; }

} // namespace idem
