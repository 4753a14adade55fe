// Hashes of a column's values that agree with an index: values that are equal for the index have equal hashes.
#pragma once

#include "server/pg.hpp"

namespace idem {

// The column type's own hash function, which does not depend on any index. fn_oid is InvalidOid when the type has none.
const FmgrInfo *hash_function(Oid type);

// Whether values of this type that are equal by the operator have equal hashes by that function. An operator class may have an
// equality of its own, and a range type may use a class that is not the default of its subtype.
bool implies_equal_hashes(Oid type, Oid equality);

} // namespace idem
