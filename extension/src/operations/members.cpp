#include "operations/members.hpp"

#include "http/http_answer.hpp"
#include "ids/snowflake.hpp"
#include "keys/key_types.hpp"
#include "machines/machine.hpp"
#include "machines/transition_log.hpp"
#include "operations/sweep_progress.hpp"
#include "outbox/outbox.hpp"
#include "outbox/outbox_lease.hpp"
#include "requests/api_key.hpp"
#include "requests/request_outcome.hpp"
#include "requests/webhook_answer.hpp"
#include "requests/webhook_source.hpp"
#include "scopes/scope.hpp"
#include "storage/fence.hpp"
#include "storage/key_space.hpp"
#include "storage/ring.hpp"
#include "storage/scope_places.hpp"
#include "tokens/token_outcome.hpp"
#include "tokens/token_secret.hpp"

namespace idem {

namespace {

// Ignores the cached result.
void check_member(Member &member) {
    member.is_checked = false;
    relation_close(open_member(member, AccessShareLock), AccessShareLock);
}

void check_rings() {
    ListCell *cell;
    foreach (cell, ring_entries()) {
        Ring *ring = ring_if_there(static_cast<RingEntry *>(lfirst(cell))->id);
        for (int i = 0; ring != nullptr && i < ring->windows; i++)
            check_member(ring->window[i].table);
    }
}

void check_types() {
    for (EnumType *type : {&outcome_enum, &http_stored_enum, &token_outcome_enum, &request_outcome_enum, &webhook_outcome_enum})
        check_enum(*type);
    for (const AnswerType *type : {&ticket_type, &key_info_type, &http_answer_type, &webhook_answer_type})
        check_answer_type(*type);
}

} // namespace

void check_members() {
    for (const KeySpace space : kKeySpaces)
        check_member(table_of(space));
    Member *const others[] = {&scopes_table,  &machines_table,   &transition_log, &outbox_table,      &parked_table,
                              &leases_table,  &sweeps_table,     &token_secrets,  &api_keys,          &webhook_sources,
                              &id_high_water, &fence_high_water, &ring_registry,  &scope_places_table};
    for (Member *member : others)
        check_member(*member);
    check_rings();
    check_types();
}

} // namespace idem
