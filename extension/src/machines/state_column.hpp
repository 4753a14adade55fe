// Columns that hold the state of a machine: checks of their types and values.
#pragma once

#include "machines/machine.hpp"
#include "server/pg.hpp"

#include <string_view>

namespace idem {

struct StateColumn {
    AttrNumber number;
    Oid type; // text, varchar or an enum; of a domain, its base type
    bool is_enum;
};

// 42703 when the table has no column of that name, 42804 when its type cannot hold states.
StateColumn state_column(Relation table, const char *name);

// The state in a value of the column: an enum's label or the text itself. Casts of the type have no influence. The text is not
// zero-terminated.
std::string_view state_name(const StateColumn &column, Datum value);

// Whether the column's type can hold states.
bool holds_states(Relation table, AttrNumber column);

// The column that a guard names. 42703 when it does not exist any more.
AttrNumber guarded_column(Relation table, const char *name);

// 0A000 when a guard could not guarantee the states: the column is part of a partition key, or different values are equal.
void check_state_column(Relation table, const StateColumn &column);

// 22023 when the column's enum lacks a state.
void check_labels(Relation table, const StateColumn &column, const char *machine, const StateNames &states);

// 23514 when a row now holds NULL or a value that is no state. `shows_values`: the error says which. Foreign partitions are not
// read. REQUIRES: a lock, also on the partitions, that keeps writers away, or ShareUpdateExclusiveLock and a guard that is
// enabled; no temporary table of another session.
void check_rows(Relation table, const StateColumn &column, const char *machine, const StateNames &states, bool shows_values);

} // namespace idem
