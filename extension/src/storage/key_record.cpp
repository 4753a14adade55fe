#include "storage/key_record.hpp"

#include "server/bytes.hpp"

namespace idem {

core::State state_of(const KeyRow &row) { return static_cast<core::State>(DatumGetChar(row.get(KeyColumn::state))); }

core::KeyFacts facts_of(const KeyRow &row, bool own_transaction, bool manual_policy) {
    core::KeyFacts facts{};
    facts.state = state_of(row);
    facts.own_transaction = own_transaction;
    facts.has_fence = !row.is_null(KeyColumn::fence);
    facts.expires_at = row.time(KeyColumn::expires_at);
    facts.lease_until = row.is_null(KeyColumn::lease_until) ? 0 : row.time(KeyColumn::lease_until);
    facts.manual_policy = manual_policy;
    return facts;
}

core::KeyFacts stored_facts(TupleDesc layout, HeapTuple row) {
    bool is_null;
    core::KeyFacts facts{};
    facts.state = static_cast<core::State>(DatumGetChar(heap_getattr(row, KeyColumn::state, layout, &is_null)));
    facts.expires_at = DatumGetTimestampTz(heap_getattr(row, KeyColumn::expires_at, layout, &is_null));
    if (facts.state == core::State::in_progress)
        facts.lease_until = DatumGetTimestampTz(heap_getattr(row, KeyColumn::lease_until, layout, &is_null));
    return facts;
}

bool is_owner(const KeyRow &row, const text *owner) {
    return owner != nullptr && !row.is_null(KeyColumn::owner) && equal_bytes(row.get(KeyColumn::owner), owner);
}

bool has_response(TupleDesc layout, HeapTuple row) {
    return !heap_attisnull(row, KeyColumn::response, layout) || !heap_attisnull(row, KeyColumn::steps, layout);
}

void remove_response(KeyRow *row) {
    if (!row->is_null(KeyColumn::response))
        row->set(KeyColumn::response_omitted, BoolGetDatum(true));
    row->set_null(KeyColumn::response);
    row->set_null(KeyColumn::steps);
}

core::Micros completion_time(TupleDesc layout, HeapTuple row) {
    const bool is_leased = !heap_attisnull(row, KeyColumn::completed_at, layout);
    bool is_null;
    return DatumGetTimestampTz(
        heap_getattr(row, is_leased ? KeyColumn::completed_at : KeyColumn::created_at, layout, &is_null));
}

void set_released(KeyRow *row) {
    row->set(KeyColumn::state, CharGetDatum(static_cast<char>(core::State::released)));
    row->set_null(KeyColumn::lease_until);
    if (row->is_null(KeyColumn::steps))
        row->set_null(KeyColumn::fingerprint);
}

} // namespace idem
