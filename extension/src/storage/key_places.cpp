#include "storage/key_places.hpp"

namespace idem {

namespace {

// Each window of each place, and the open one once more, if it was opened for reading first.
int most_opened(const KeyPlaces &places) { return places.of_scope.count * (kMaxWindows + 1); }

void make_room(KeyPlaces *places) {
    places->room = places->count + most_opened(*places);
    const Size bytes = sizeof(OpenedWindow) * places->room;
    places->opened = static_cast<OpenedWindow *>(places->opened == nullptr ? palloc(bytes) : repalloc(places->opened, bytes));
}

// Runs `work` with the resource owner of open_places.
template <typename Work> void as_opener(const KeyPlaces &places, Work work) {
    const ResourceOwner owner = CurrentResourceOwner;
    CurrentResourceOwner = places.owner;
    work();
    CurrentResourceOwner = owner; // after an error, the end of the (sub)transaction sets it
}

void unlock_maps(KeyPlaces *places) {
    for (int i = 0; i < places->of_scope.count; i++) {
        if (places->rings[i] != nullptr)
            unlock_ring(*places->rings[i]);
        places->rings[i] = nullptr;
    }
}

// The order is that of the ids, as in a move of a scope. Returns the id of a ring that was dropped, or 0.
int try_lock_maps(KeyPlaces *places) {
    const ScopePlaces &of_scope = places->of_scope;
    for (int locked = 0, last = kInIdemKeys; locked < of_scope.count; locked++) {
        int next = -1;
        for (int i = 0; i < of_scope.count; i++)
            if (of_scope.places[i].ring > last && (next < 0 || of_scope.places[i].ring < of_scope.places[next].ring))
                next = i;
        if (next < 0)
            break;
        last = of_scope.places[next].ring;
        places->rings[next] = lock_ring_if_there(last);
        if (places->rings[next] == nullptr)
            return last;
    }
    return 0;
}

// The drop of a ring waits for claims, but not for look-ups. So one of these may wait for the map until it is gone.
void lock_maps(KeyPlaces *places) {
    places->times_locked++;
    while (const int dropped = try_lock_maps(places)) {
        check_for_interrupts();
        unlock_maps(places);
        const ScopePlaces *now = places_of(places->scope);
        places->of_scope = now != nullptr ? *now : kOnlyIdemKeys;
        for (int i = 0; i < places->of_scope.count; i++)
            if (places->of_scope.places[i].ring == dropped)
                (void)lock_ring(dropped); // 55000
        make_room(places);
    }
}

HeapTable open_heap_of(RingWindow &window, LOCKMODE lock) {
    Relation relation = open_member_if_unlocked(window.table, lock);
    return relation == nullptr ? HeapTable{} : heap_of_window(relation);
}

} // namespace

KeyPlaces *open_places(const text *scope, const ScopePlaces &of_scope, bool is_writing) {
    auto *places = static_cast<KeyPlaces *>(palloc0(sizeof(KeyPlaces)));
    places->scope = scope;
    places->of_scope = of_scope;
    places->owner = CurrentResourceOwner;
    places->is_writing = is_writing;
    make_room(places);
    return places;
}

void close_places(KeyPlaces *places) {
    as_opener(*places, [&] {
        for (int i = 0; i < places->count; i++)
            close_heap(places->opened[i].heap);
    });
}

void hold_placement(KeyPlaces *places) {
    if (places->holds++ == 0)
        as_opener(*places, [&] { lock_maps(places); });
}

void release_placement(KeyPlaces *places) {
    if (--places->holds == 0)
        as_opener(*places, [&] { unlock_maps(places); });
}

core::Micros ring_retention(KeyPlaces *places) {
    const int ring = places->of_scope.current();
    core::Micros retention = 0;
    if (ring != kInIdemKeys)
        as_opener(*places, [&] { retention = retention_of(ring); });
    return retention;
}

int open_window(KeyPlaces *places, const Ring &ring, int window, LOCKMODE lock) {
    for (int i = 0; i < places->count; i++) {
        OpenedWindow &opened = places->opened[i];
        if (opened.ring != ring.id || opened.window != window)
            continue;
        if (opened.lock >= lock)
            return i + 1;
        bool is_locked = false;
        as_opener(*places, [&] { is_locked = ConditionalLockRelationOid(RelationGetRelid(opened.heap.relation), lock); });
        if (is_locked) {
            opened.lock = lock;
            return i + 1;
        }
    }
    if (places->count == places->room)
        elog(ERROR, "too many windows of ring %d were opened", ring.id);
    auto &table = const_cast<RingWindow &>(ring.window[window]);
    HeapTable heap{};
    as_opener(*places, [&] { heap = open_heap_of(table, lock); });
    if (heap.relation == nullptr) {
        places->awaited = &table;
        places->awaited_lock = lock;
        return 0;
    }
    places->opened[places->count++] = {heap, ring.id, window, lock};
    return places->count;
}

void await_window(KeyPlaces *places) {
    as_opener(*places, [&] {
        unlock_maps(places);
        // The lock stays until the transaction ends, so the next attempt finds it.
        relation_close(open_member(places->awaited->table, places->awaited_lock), NoLock);
        lock_maps(places);
    });
    places->awaited = nullptr;
}

void lock_window_for_writing(KeyPlaces *places, int number) {
    OpenedWindow &opened = places->opened[number - 1];
    if (opened.lock >= RowExclusiveLock)
        return;
    as_opener(*places, [&] { LockRelationOid(RelationGetRelid(opened.heap.relation), RowExclusiveLock); });
    opened.lock = RowExclusiveLock;
}

int window_for_new_keys(KeyPlaces *places) {
    const Ring *ring = places->rings[0];
    if (ring == nullptr)
        return 0;
    const int number = open_window(places, *ring, ring->open, RowExclusiveLock);
    if (number > 0)
        return number;
    await_window(places);
    return -1;
}

bool is_left_behind(const KeyPlaces &places, int place) {
    const Ring *ring = places.rings[place];
    return ring != nullptr && place > 0 && !may_have_keys_through(*ring, places.of_scope.places[place].through);
}

Candidates candidates_for(const KeyPlaces &places, const text *scope, const text *key) {
    Candidates candidates{};
    for (int i = 0; i < places.of_scope.count; i++)
        if (places.rings[i] != nullptr && !is_left_behind(places, i))
            candidates.windows[i] = windows_to_search(*places.rings[i], scope, key);
    return candidates;
}

} // namespace idem
