// The tables in which a scope's keys are looked for, when that is not idem_keys alone: the windows of its ring, and during a
// move the place that it comes from. Part of key_store, which is the only one to include it.
//
// A *look* is the time between begin_look and end_look. The ring's map is locked meanwhile, so the same windows stay in the
// same states, and nothing waits. A window that another session has locked is waited for between two looks.
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
    uint64 times_locked; // the maps: another number, another look
    RingWindow *awaited; // the window that open_window could not lock
    LOCKMODE awaited_lock;
    int looks;                      // how many are nested
    Ring *rings[ScopePlaces::kMax]; // by place; nullptr: idem_keys. Valid during a look
    OpenedWindow *opened;
    int count;
    int room; // for so many
};

// Reads the places of a scope, which has to stay in memory. nullptr: idem_keys alone. REQUIRES: idem_keys is locked.
KeyPlaces *open_places(const text *scope, bool is_writing);
void close_places(KeyPlaces *places);

void begin_look(KeyPlaces *places);
void end_look(KeyPlaces *places);

// The retention of the scope's keys. 0: it lives in idem_keys.
core::Micros ring_retention(KeyPlaces *places);

// Opens a window, or returns the number that it has already. 0: another session has locked it; the caller gives up what it has
// pinned, and calls await_window.
int open_window(KeyPlaces *places, const Ring &ring, int window, LOCKMODE lock);

// Waits for the window that open_window could not lock. The look is over, and another one has begun.
void await_window(KeyPlaces *places);

// Locks a window for writing that was opened for reading. May wait. REQUIRES: no look.
void lock_window_for_writing(KeyPlaces *places, int number);

// Whether the scope has left the place and has no key there any more, so that no look needs it. REQUIRES: a look.
bool is_left_behind(const KeyPlaces &places, int place);

} // namespace idem
