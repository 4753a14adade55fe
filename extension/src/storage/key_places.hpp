// The tables that are searched for a scope's keys, when that is not idem_keys alone: the windows of its ring, and during a
// move the place that it comes from. Only scopes that are or were in a ring have KeyPlaces; key_table.hpp and key_lookup.hpp
// hide them from other files.
//
// The *placement* is which window has which keys. From hold_placement to release_placement the ring's map is locked, so the
// same windows stay in the same states, and nothing waits. To wait for a window that another session has locked, the placement
// is released, and held again afterwards.
//
// Everything that is opened and locked here belongs to the resource owner of open_places, so that the rollback of a
// subtransaction in between takes nothing away.
#pragma once

#include "storage/heap_table.hpp"
#include "storage/ring.hpp"
#include "storage/scope_places.hpp"

namespace idem {

// A table that was opened. Its number is its index in KeyPlaces::opened + 1; 0 is idem_keys.
struct OpenedWindow {
    HeapTable heap;
    int ring;
    int window;
    LOCKMODE lock;
};

struct KeyPlaces {
    const text *scope;
    ScopePlaces of_scope;
    ResourceOwner owner;
    bool is_writing;
    uint64 times_locked; // the maps: with another number, the placement may be another
    RingWindow *awaited; // the window that open_window could not lock
    LOCKMODE awaited_lock;
    int holds;                      // how many are nested
    Ring *rings[ScopePlaces::kMax]; // by place; nullptr: idem_keys. Valid while the placement is held
    OpenedWindow *opened;
    int count;
    int room; // for so many
};

// `scope` has to stay in memory. REQUIRES: idem_keys is locked.
KeyPlaces *open_places(const text *scope, const ScopePlaces &of_scope, bool is_writing);
void close_places(KeyPlaces *places);

void hold_placement(KeyPlaces *places);
void release_placement(KeyPlaces *places);

// The retention of the scope's keys. 0: it lives in idem_keys.
core::Micros ring_retention(KeyPlaces *places);

// Opens a window, or returns the number that it has already. 0: another session has locked it; the caller gives up what it has
// pinned, and calls await_window.
int open_window(KeyPlaces *places, const Ring &ring, int window, LOCKMODE lock);

// Waits for the window that open_window could not lock. The placement is released meanwhile, and may be another afterwards.
void await_window(KeyPlaces *places);

// Locks a window for writing that was opened for reading. May wait. REQUIRES: the placement is not held.
void lock_window_for_writing(KeyPlaces *places, int number);

// The number of the window that takes new keys. 0: idem_keys takes them. -1: the window was waited for, and the caller begins
// again. REQUIRES: the placement is held, and no page pinned.
int window_for_new_keys(KeyPlaces *places);

// Whether the scope has left the place and has no key there any more, so that no search needs it. REQUIRES: the placement is
// held.
bool is_left_behind(const KeyPlaces &places, int place);

// For each place, the sealed windows that may have the key. REQUIRES: the placement is held.
struct Candidates {
    uint32 windows[ScopePlaces::kMax];

    bool contain(int place, int window) const { return (windows[place] >> window & 1) != 0; }
};
Candidates candidates_for(const KeyPlaces &places, const text *scope, const text *key);

// A table that is searched.
struct Visited {
    int number;          // KeyVersion::table
    bool takes_new_keys; // those of the scope
    int place;
    int sealed_window; // or -1: every key may be in the table
};

// Calls `visit(heap, Visited)` for the tables that may have one of the keys, as long as it returns true. `may_be_in(place,
// window)` says so of a sealed window. False: a window was waited for, and the caller begins again. REQUIRES: the placement is
// held.
template <typename MayBeIn, typename Visit>
bool visit_places(KeyPlaces *places, const HeapTable &idem_keys, MayBeIn may_be_in, Visit visit) {
    bool go_on = true;
    const auto visit_window = [&](int place, int window) {
        const Ring &ring = *places->rings[place];
        const bool is_open = window == ring.open;
        if (place > 0 && ring.window[window].state.generation > places->of_scope.places[place].through)
            return true;
        if (!is_open && !may_be_in(place, window))
            return true;
        const bool takes_new_keys = place == 0 && is_open;
        const LOCKMODE lock = takes_new_keys && places->is_writing ? RowExclusiveLock : AccessShareLock;
        const int number = open_window(places, ring, window, lock);
        if (number != 0)
            go_on = visit(places->opened[number - 1].heap, Visited{number, takes_new_keys, place, is_open ? -1 : window});
        return number != 0;
    };
    for (int place = 0; place < places->of_scope.count && go_on; place++) {
        const Ring *ring = places->rings[place];
        if (ring == nullptr) {
            go_on = visit(idem_keys, Visited{0, place == 0, place, -1});
            continue;
        }
        if (is_left_behind(*places, place))
            continue;
        for (int i = 0; i < ring->searched_count && go_on; i++)
            if (!visit_window(place, ring->searched[i]))
                return false;
        if (go_on && !visit_window(place, ring->open))
            return false;
    }
    return true;
}

} // namespace idem
