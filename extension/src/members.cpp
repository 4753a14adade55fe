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

namespace {

// As it is now, not as it is cached.
void check_member(Member &member) {
    member.is_checked = false;
    relation_close(open_member(member, AccessShareLock), AccessShareLock);
}

} // namespace

void check_members() {
    for (Member &table : key_tables)
        check_member(table);
    Member *const others[] = {&scopes_table,  &counters_table, &machines_table, &transition_log,
                              &outbox_table,  &parked_table,   &leases_table,   &sweeps_table,
                              &token_secrets, &api_keys,       &id_high_water,  &fence_high_water};
    for (Member *member : others)
        check_member(*member);
    check_types();
}

} // namespace idem
