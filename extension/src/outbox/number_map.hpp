// A hash table from one number to another, for the time of one call: open addressing, nothing is ever taken out.
#pragma once

#include "server/pg.hpp"

namespace idem {

struct NumberMap {
    struct Entry {
        uint64 number;
        int64 value;
        bool is_used;
    };
    Entry *entries;
    Size room; // a power of two, at least twice the count
    Size count;
};

namespace number_map {

inline NumberMap::Entry *allocate(Size room) {
    return static_cast<NumberMap::Entry *>(
        MemoryContextAllocExtended(CurrentMemoryContext, room * sizeof(NumberMap::Entry), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
}

// The finalizer of splitmix64: ids differ in few bits.
inline uint64 mix(uint64 number) {
    number = (number ^ (number >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64CONST(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

// Where the number is, or belongs. REQUIRES: there is room.
inline NumberMap::Entry *place_of(const NumberMap &map, uint64 number) {
    Size at = mix(number) & (map.room - 1);
    while (map.entries[at].is_used && map.entries[at].number != number)
        at = (at + 1) & (map.room - 1);
    return &map.entries[at];
}

inline void grow(NumberMap *map) {
    const NumberMap old = *map;
    map->room = Max(old.room * 2, 64);
    map->entries = allocate(map->room);
    for (Size i = 0; i < old.room; i++)
        if (old.entries[i].is_used)
            *place_of(*map, old.entries[i].number) = old.entries[i];
    if (old.entries != nullptr)
        pfree(old.entries);
}

} // namespace number_map

// The number's value, or nullptr. Valid until the next put.
inline int64 *find(const NumberMap &map, uint64 number) {
    if (map.count == 0)
        return nullptr;
    NumberMap::Entry *entry = number_map::place_of(map, number);
    return entry->is_used ? &entry->value : nullptr;
}

// The number's value, which is `value` if it is new. Valid until the next put.
inline int64 *put(NumberMap *map, uint64 number, int64 value) {
    if ((map->count + 1) * 2 > map->room)
        number_map::grow(map);
    NumberMap::Entry *entry = number_map::place_of(*map, number);
    if (!entry->is_used) {
        *entry = {number, value, true};
        map->count++;
    }
    return &entry->value;
}

} // namespace idem
