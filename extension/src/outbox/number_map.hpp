// A hash table from number to number, for the duration of one call. It uses open addressing, and entries are never removed.
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
    Size capacity; // a power of two, at least twice the count
    Size count;
};

namespace number_map {

inline NumberMap::Entry *allocate(Size capacity) {
    return static_cast<NumberMap::Entry *>(MemoryContextAllocExtended(CurrentMemoryContext, capacity * sizeof(NumberMap::Entry),
                                                                      MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
}

// The finalizer of splitmix64. Needed because ids differ in few bits.
inline uint64 mix(uint64 number) {
    number = (number ^ (number >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64CONST(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

// The number's entry, or the unused entry for it. REQUIRES: an entry is unused.
inline NumberMap::Entry *entry_of(const NumberMap &map, uint64 number) {
    Size at = mix(number) & (map.capacity - 1);
    while (map.entries[at].is_used && map.entries[at].number != number)
        at = (at + 1) & (map.capacity - 1);
    return &map.entries[at];
}

inline void grow(NumberMap *map) {
    const NumberMap old = *map;
    map->capacity = Max(old.capacity * 2, 64);
    map->entries = allocate(map->capacity);
    for (Size i = 0; i < old.capacity; i++)
        if (old.entries[i].is_used)
            *entry_of(*map, old.entries[i].number) = old.entries[i];
    if (old.entries != nullptr)
        pfree(old.entries);
}

} // namespace number_map

// The number's value, or nullptr. Valid until the next put.
inline int64 *find(const NumberMap &map, uint64 number) {
    if (map.count == 0)
        return nullptr;
    NumberMap::Entry *entry = number_map::entry_of(map, number);
    return entry->is_used ? &entry->value : nullptr;
}

// Adds the number with `value` unless the map has it, and returns its value. Valid until the next put.
inline int64 *put(NumberMap *map, uint64 number, int64 value) {
    if ((map->count + 1) * 2 > map->capacity)
        number_map::grow(map);
    NumberMap::Entry *entry = number_map::entry_of(*map, number);
    if (!entry->is_used) {
        *entry = {number, value, true};
        map->count++;
    }
    return &entry->value;
}

} // namespace idem
