// The values of a key's row, and what they say of the key. Nothing here reads or writes a table.
#pragma once

#include "core/key_state.hpp"
#include "storage/key_space.hpp"

namespace idem {

// The values of one row of a space with key columns, by KeyColumn number - 1.
struct KeyRow {
    Datum values[KeyColumn::count];
    bool nulls[KeyColumn::count];

    void set(AttrNumber column, Datum value) {
        values[column - 1] = value;
        nulls[column - 1] = false;
    }
    void set_null(AttrNumber column) {
        values[column - 1] = Datum{0};
        nulls[column - 1] = true;
    }
    bool is_null(AttrNumber column) const { return nulls[column - 1]; }
    Datum get(AttrNumber column) const { return values[column - 1]; }
    core::Micros time(AttrNumber column) const { return DatumGetTimestampTz(get(column)); }
};

// A row's facts for the state table, except those of fingerprints and owner, which the caller compares.
core::State state_of(const KeyRow &row);
core::KeyFacts facts_of(const KeyRow &row, bool own_transaction, bool manual_policy);

// Whether `owner` is given and equals the row's owner.
bool is_owner(const KeyRow &row, const text *owner);

// Makes `row` released: free for the next attempt, which may be one at other work unless a step was made.
void set_released(KeyRow *row);

// The facts that decide whether a stored row is expired, without decoding all of it. Assumes the policy `takeover`.
core::KeyFacts stored_facts(TupleDesc layout, HeapTuple row);

// The response of a completed key, and the outputs of its steps. A key whose response is removed counts as completed as before,
// and replays say response_omitted.
bool has_response(TupleDesc layout, HeapTuple row);
void remove_response(KeyRow *row);
// When the key's work was completed. REQUIRES: a completed key.
core::Micros completion_time(TupleDesc layout, HeapTuple row);

} // namespace idem
