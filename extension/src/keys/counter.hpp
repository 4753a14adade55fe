// The table of what idem_hit counts.
#pragma once

#include "storage/member.hpp"

namespace idem {

struct CounterColumn {
    enum : AttrNumber { expires_at = 1, hits, scope, key };
};

extern Member counters_table;

} // namespace idem
