// An open table of keys, tokens, locks, rates or counters. The files key_*.hpp say "key" for a row of any of the five.
//
// Each table is an ordinary heap with one unique index, written without the executor. Its work is done here: read-only and
// parallel checks, speculative insertion, index entries, command counter. User triggers, rules and row-level security on the
// tables have no effect.
//
// Keys of a scope that has a ring are in the ring's windows (key_places.hpp), and in two places while the scope moves. Callers
// do not know the layout: a row's version says itself in which table it is. Where the keys are is fixed while the placement is
// held (hold_placement). The keys of any other scope are in one table, `places` is nullptr, and hold_placement does nothing.
#pragma once

#include "core/key_state.hpp"
#include "storage/heap_table.hpp"
#include "storage/key_space.hpp"

namespace idem {

struct KeyPlaces;

struct KeyTable : HeapTable {
    KeySpace space;
    KeyPlaces *places; // of the scope, or nullptr: this table alone
};

// Opens the table for the keys of one scope. `scope` may be nullptr in spaces other than that of keys.
enum class Access { read, write };
KeyTable open_keys(Access access, KeySpace space, const text *scope);
void close_keys(const KeyTable &table);

// The keys of an open table, locked for writing, whatever their scope. The caller closes the index.
KeyTable keys_in(Relation table);

// How long the keys of a scope in a ring are retained, from the claim on; 0: as long as the claim says.
core::Micros fixed_retention(const KeyTable &table);

// The scope's keys stay in their places from hold_placement to release_placement. A key is inserted while the placement is held
// under which it was found absent; nothing waits meanwhile. Holds may be nested. An error releases them.
void hold_placement(const KeyTable &table);
void release_placement(const KeyTable &table);

// Another number than before: the placement was released since, and held again, to wait for a window. What was found absent
// before is a hint only.
uint64 placement_number(const KeyTable &table);

// A version of a row: in which table (0: idem_keys, or the window's number in `places`), and where.
struct KeyVersion {
    ItemPointerData tid;
    int table;
};
inline bool is_in_ring(const KeyVersion &version) { return version.table > 0; }

const HeapTable &window_of(const KeyTable &table, const KeyVersion &version);
const HeapTable &writable_window_of(const KeyTable &table, const KeyVersion &version);

// The table that has the version.
inline const HeapTable &heap_of(const KeyTable &table, const KeyVersion &version) {
    return is_in_ring(version) ? window_of(table, version) : table;
}

// As heap_of, for a change.
inline const HeapTable &writable_heap_of(const KeyTable &table, const KeyVersion &version) {
    return is_in_ring(version) ? writable_window_of(table, version) : table;
}

// The number of the table that takes new keys, as in KeyVersion. -1: its window was waited for, and the caller begins again.
// REQUIRES: the placement is held, and no page pinned.
int table_for_new_keys(const KeyTable &table);

// Whether the placement is held, so that a change must not wait.
bool holds_placement(const KeyTable &table);

} // namespace idem
