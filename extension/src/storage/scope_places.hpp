// Where the keys of a scope live: in idem_keys or in a ring, and for a time after a move in both.
//
// idem_scope_places has rows for scopes that are or were in a ring; a scope without rows lives in idem_keys. Sessions cache
// them. A claim reads them after it has locked idem_keys, and a move holds a lock on idem_keys that no claim can share. So all
// claims that are in progress at the same time agree on the places of a scope.
#pragma once

#include "core/key_state.hpp"
#include "storage/member.hpp"

namespace idem {

extern Member scope_places_table;

inline constexpr int kInIdemKeys = 0; // instead of the id of a ring

struct ScopePlace {
    int ring; // kInIdemKeys or its id
    bool is_current;
    int64 through; // of a ring that the scope has left: the last generation of windows that may have its keys
};

struct ScopePlaces {
    static constexpr int kMax = 8;
    ScopePlace places[kMax]; // the current one first
    int count;

    int current() const { return places[0].ring; }
};

// Those of a scope without rows.
inline constexpr ScopePlaces kOnlyIdemKeys{{{kInIdemKeys, true, 0}}, 1};

// nullptr: all of the scope's keys are in idem_keys. Valid until the next call. REQUIRES: the changes of other sessions were
// received, as open_member does.
const ScopePlaces *places_of(const text *scope);

// As the current transaction sees them, without the cache.
ScopePlaces read_places(const text *scope);

// The scopes that have rows, as text *.
List *scopes_with_places();

} // namespace idem
