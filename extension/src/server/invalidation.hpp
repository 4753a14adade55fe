// Changes of relations, for the files that cache what they have read of them.
//
// The server has room for ten callbacks of the relation cache in a backend, for all of its libraries. idem takes one of them.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Called for each change that the relation cache reports; InvalidOid: every relation may have changed. May not raise an error.
using RelationChanged = void (*)(Oid relation);

// Calls `changed` from now on, after those that were given before. REQUIRES: called once per backend for each function.
void on_relation_change(RelationChanged changed);

} // namespace idem
