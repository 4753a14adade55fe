#include "storage/key_table.hpp"

#include "storage/key_places.hpp"

namespace idem {

namespace {

// The executor's lock modes. A standby allows both.
LOCKMODE lock_for(Access access) { return access == Access::write ? RowExclusiveLock : AccessShareLock; }

} // namespace

KeyTable open_keys(Access access, KeySpace space, const text *scope) {
    KeyTable table{open_heap(table_of(space), lock_for(access)), space, nullptr};
    if (space != KeySpace::keys || scope == nullptr)
        return table;
    if (const ScopePlaces *places = places_of(scope))
        table.places = open_places(scope, *places, access == Access::write);
    return table;
}

KeyTable keys_in(Relation table) { return {heap_of_window(table), KeySpace::keys, nullptr}; }

void close_keys(const KeyTable &table) {
    if (table.places != nullptr)
        close_places(table.places);
    close_heap(table);
}

core::Micros fixed_retention(const KeyTable &table) { return table.places == nullptr ? 0 : ring_retention(table.places); }

void hold_placement(const KeyTable &table) {
    if (table.places != nullptr)
        hold_placement(table.places);
}

void release_placement(const KeyTable &table) {
    if (table.places != nullptr)
        release_placement(table.places);
}

uint64 placement_number(const KeyTable &table) { return table.places == nullptr ? 0 : table.places->times_locked; }

bool holds_placement(const KeyTable &table) { return table.places != nullptr && table.places->holds > 0; }

const HeapTable &window_of(const KeyTable &table, const KeyVersion &version) {
    return table.places->opened[version.table - 1].heap;
}

const HeapTable &writable_window_of(const KeyTable &table, const KeyVersion &version) {
    if (!holds_placement(table))
        lock_window_for_writing(table.places, version.table);
    return window_of(table, version);
}

int table_for_new_keys(const KeyTable &table) { return table.places == nullptr ? 0 : window_for_new_keys(table.places); }

} // namespace idem
