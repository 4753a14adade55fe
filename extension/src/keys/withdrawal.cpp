#include "keys/withdrawal.hpp"

#include "server/clock.hpp"

namespace idem {

namespace {

bool is_claim_without_lease(const KeyRow &row) {
    return state_of(row) == core::State::completed && row.is_null(KeyColumn::fence);
}

// The row that the claim replaced. Versions in between are of the claim itself. False: it replaced none that still counts.
bool find_row_before(const KeyTable &table, const FoundRow &claim, const text *scope, const text *key, bool manual_policy,
                     KeyRow *row) {
    const HeapTable &heap = heap_of(table, claim.version);
    FoundRow before = claim;
    do {
        before = find_replaced(heap, scope, key, before);
        if (before.presence == Presence::absent)
            return false;
        *row = read_row(table, before);
    } while (before.own_transaction && is_claim_without_lease(*row));
    // Only an expired row of this kind was replaced, and a copy of it would look like this transaction's claim.
    if (is_claim_without_lease(*row))
        return false;
    const core::KeyFacts facts = facts_of(*row, before.own_transaction, manual_policy);
    return !core::is_expired(facts, clock_now());
}

} // namespace

Write withdraw_claim(const KeyTable &table, const FoundRow &claim, const text *scope, const text *key, bool manual_policy) {
    KeyVersion version = claim.version;
    KeyRow row;
    return find_row_before(table, claim, scope, key, manual_policy, &row) ? replace_key(table, &version, row, true)
                                                                          : delete_key(table, &version);
}

} // namespace idem
