// Hashes of a column's values that agree with an index: values that it finds equal have equal hashes.
#pragma once

#include "server/pg.hpp"

namespace idem {

// The column type's own hash function, which is the same whichever index there is; fn_oid is InvalidOid when it has none.
const FmgrInfo *hash_function(Oid type);

// Whether values of this type that the operator finds equal have equal hashes by that function. An operator class may have an
// equality of its own, and a range type takes that of a class which is not its subtype's default.
bool implies_equal_hashes(Oid type, Oid equality);

} // namespace idem
