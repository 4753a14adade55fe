// A column that holds the state of a machine: which columns can, and whether what they hold fits.
#pragma once

#include "machines/machine.hpp"
#include "server/pg.hpp"

#include <string_view>

namespace idem {

struct StateColumn {
    AttrNumber number;
    Oid type; // below any domain: text, varchar or an enum
    bool is_enum;
};

// The column for reading. 42703 when the table has none of that name, 42804 when its type is another.
StateColumn state_column(Relation table, const char *name);

// The state that a value of the column is: an enum's label or the text itself, never what a cast of the type makes of it. Not
// zero-terminated.
std::string_view state_name(const StateColumn &column, Datum value);

// Whether the column's type can hold states.
bool holds_states(Relation table, AttrNumber column);

// The column that a guard was given by name: 42703 when it is not there any more.
AttrNumber guarded_column(Relation table, const char *name);

// What a guard could not vouch for: part of a partition key, and values that are equal without being the same. 0A000.
void check_state_column(Relation table, const StateColumn &column);

// 22023 when the column's enum lacks a state.
void check_labels(Relation table, const StateColumn &column, const char *machine, const StateNames &states);

// 23514 when a row holds NULL or something that is no state, as of now; `may_tell`: what it holds. Foreign partitions are not
// looked at. REQUIRES: a lock that keeps writers away, also from partitions; no temporary table of another session.
void check_rows(Relation table, const StateColumn &column, const char *machine, const StateNames &states, bool may_tell);

} // namespace idem
