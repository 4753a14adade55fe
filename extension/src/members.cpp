#include "members.hpp"

#include "api_key.hpp"
#include "counter.hpp"
#include "fence.hpp"
#include "key_space.hpp"
#include "machine.hpp"
#include "outbox.hpp"
#include "outbox_lease.hpp"
#include "scope.hpp"
#include "snowflake.hpp"
#include "sweep_progress.hpp"
#include "token_secret.hpp"
#include "transition_log.hpp"
#include "types.hpp"

namespace idem {

void check_members() {
    for (Member &table : key_tables)
        relation_close(open_member(table, AccessShareLock), AccessShareLock);
    Member *const others[] = {&scopes_table,  &counters_table, &machines_table, &transition_log,
                              &outbox_table,  &parked_table,   &leases_table,   &sweeps_table,
                              &token_secrets, &api_keys,       &id_high_water,  &fence_high_water};
    for (Member *member : others)
        relation_close(open_member(*member, AccessShareLock), AccessShareLock);
    check_types();
}

} // namespace idem
