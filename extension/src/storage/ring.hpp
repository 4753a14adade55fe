// Rings: keys in windows by the time of their claim (docs/rings.md).
//
// A ring is a row of idem_ring_registry, a table idem_ring_<id> that says what state each window is in (the map), a table
// idem_ring_<id>_<window> for each window, which inherits from idem_keys, and the filter, which is an index on the map. None
// but the first belongs to the extension, so that pg_dump writes them; they are dropped with it all the same.
//
// The map's relation lock keeps its contents as they are. A search for a key and its insertion hold RowExclusiveLock on the map
// and wait for nobody; a REINDEX of the filter waits for that lock. Opening and expiring a window hold ExclusiveLock until the
// commit. Sessions cache the map and read it again when the relation cache reports a change, which every change does.
#pragma once

#include "core/key_state.hpp"
#include "core/ring_filter.hpp"
#include "core/ring_schedule.hpp"
#include "storage/member.hpp"

namespace idem {

extern Member ring_registry;

inline constexpr int kMinWindows = 3;
inline constexpr int kMaxWindows = core::kMaxFilterWindows;

struct RingWindow {
    core::Window state; // what the map says
    Member table;
    char name[NAMEDATALEN];
    Oid file;              // its relfilenode
    bool is_filled;        // the filter has the keys that were in it
    bool reports_arrivals; // its trigger takes it out of the filter for each row that comes other than by a claim
    bool is_covered;       // by the filter, which claims may then believe: both of these
};

struct Ring {
    int id;
    Oid map;
    Oid filter;      // InvalidOid: it is missing
    Oid filter_file; // its relfilenode, when what follows from its page 0 was read
    bool filter_is_intact;
    core::Micros retention;
    int windows;
    int open; // the number of the window that takes new keys
    RingWindow window[kMaxWindows];
    int searched[kMaxWindows]; // the sealed windows, the newest first; a claim searches these and the open one
    int searched_count;
    uint32 covered;   // of these, as bits, those that the filter covers
    uint32 uncovered; // and the others
    core::FilterShape shape;
    uint64 seed;
    bool is_current; // false: the next lock_ring reads it again
    bool is_being_read;
    uint64 changes; // reported by the relation cache
    Ring *next;
};

// Locks the map and returns the ring as it is then. 55000: it is not as idem_ring_create made it. The lock belongs to the
// current resource owner.
Ring &lock_ring(int id, LOCKMODE lock = RowExclusiveLock);
// nullptr: the ring was dropped since the caller has read of it.
Ring *lock_ring_if_there(int id, LOCKMODE lock = RowExclusiveLock);
void unlock_ring(const Ring &ring, LOCKMODE lock = RowExclusiveLock);

// The ring as it is at this moment, without its lock.
Ring &ring_now(int id);
Ring *ring_if_there(int id);

// Whether a window that claims search, and that was opened in this generation or an earlier one, may have keys.
bool may_have_keys_through(const Ring &ring, int64 generation);

// "empty", "open", "sealed" or "expired", as in the map.
const char *state_name(core::WindowState state);

// The ring's retention. REQUIRES: the changes of other sessions were received.
core::Micros retention_of(int id);

// The windows that may have the key, as bits: those that the filter says "maybe" of, and those that it does not cover. The open
// window is not among them. REQUIRES: the map is locked.
uint32 windows_to_search(const Ring &ring, const text *scope, const text *key);

// The id of the ring of that name; 42704: there is none.
int ring_named(const text *name);

// All rings, as RingEntry *.
struct RingEntry {
    int id;
    char *name;
    Interval *retention;
};
List *ring_entries();

// Calls `visit(RingWindow &)` for each window of each ring that claims search.
template <typename Visit> void for_each_searched_window(Visit visit) {
    ListCell *cell;
    foreach (cell, ring_entries()) {
        Ring *ring = ring_if_there(static_cast<RingEntry *>(lfirst(cell))->id);
        for (int i = 0; ring != nullptr && i < ring->windows; i++)
            if (core::is_searched(ring->window[i].state.state))
                visit(ring->window[i]);
    }
}

// Whether the relation is named and owned as a window of a ring, whether the ring is registered or not: a restore may write
// windows before the registry.
bool is_named_as_window(Oid relation, int *ring, int *window);
bool is_named_as_map(Oid relation);
bool is_registered(int ring);

// The names of a ring's relations, without the schema.
char *map_name(int ring);
char *window_name(int ring, int window);
char *filter_name(int ring);

// Registers for changes of relations, and lets windows inherit from idem_keys. REQUIRES: called once per backend.
void rings_initialize();

} // namespace idem
