// Rings: keys in windows by the time of their claim (docs/rings.md).
//
// A ring is a row of idem_ring_registry, a table idem_ring_<id> that says what state each window is in (the map), a table
// idem_ring_<id>_<window> for each window, which inherits from idem_keys, and the filter, which is an index on the map. None
// but the first belongs to the extension, so that pg_dump writes them; they are dropped with it all the same.
//
// The map's relation lock keeps its contents as they are. Whoever looks for a key or inserts one holds RowExclusiveLock on it
// meanwhile, and waits for nobody; a REINDEX of the filter waits for that lock. Whoever changes the map holds ExclusiveLock
// until the commit. Sessions cache the map and read it again when the relation cache reports a change, which every change does.
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
    Oid file;        // its relfilenode
    bool is_covered; // by the filter
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
    int looked_in[kMaxWindows]; // the windows that a claim consults besides the open one, the newest first
    int looked_in_count;
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
void unlock_ring(const Ring &ring, LOCKMODE lock = RowExclusiveLock);

// The ring's retention. REQUIRES: the changes of other sessions were received.
core::Micros retention_of(int id);

// The windows that may have the key, as bits: those that the filter says "maybe" of, and those that it does not cover. The open
// window is not among them. REQUIRES: the map is locked.
uint32 windows_to_look_in(const Ring &ring, const text *scope, const text *key);

// The ring's id; 0: there is none of that name.
int find_ring(const char *name);

// All rings, as RingEntry *.
struct RingEntry {
    int id;
    char *name;
    Interval *retention;
};
List *ring_entries();

// Whether the relation is named and owned as a window of a ring that exists.
bool is_window_of_a_ring(Oid relation);
// The same, whether the ring is registered or not: a restore may write windows before the registry.
bool is_named_as_window(Oid relation, int *ring, int *window);
bool is_registered(int ring);

// The names of a ring's relations, without the schema.
char *map_name(int ring);
char *window_name(int ring, int window);
char *filter_name(int ring);

// Registers the invalidation callback. REQUIRES: called once per backend.
void rings_initialize();

} // namespace idem
