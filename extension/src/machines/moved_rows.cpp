#include "machines/moved_rows.hpp"

namespace idem {

namespace {

struct Departure {
    MoveKey key;
    std::string_view state;
    Departure *next;
};

// The list is in TopTransactionContext and ends with it. It is rarely longer than triggers are nested.
constinit Departure *departures = nullptr;
constinit bool is_registered = false;

void forget_departures(void *) {
    departures = nullptr;
    is_registered = false;
}

void forget_at_end_of_transaction() {
    if (is_registered)
        return;
    auto *callback =
        static_cast<MemoryContextCallback *>(MemoryContextAllocZero(TopTransactionContext, sizeof(MemoryContextCallback)));
    callback->func = forget_departures;
    MemoryContextRegisterResetCallback(TopTransactionContext, callback);
    is_registered = true;
}

bool same_move(const MoveKey &a, const MoveKey &b) {
    return a.transaction == b.transaction && a.command == b.command && a.attached_table == b.attached_table &&
           strcmp(a.column, b.column) == 0;
}

Departure *take(const MoveKey &move) {
    for (Departure **link = &departures; *link != nullptr; link = &(*link)->next)
        if (same_move((*link)->key, move)) {
            Departure *taken = *link;
            *link = taken->next;
            return taken;
        }
    return nullptr;
}

// One allocation: the entry, the column's name, the state.
Departure *make_departure(const MoveKey &move, std::string_view state) {
    const Size column_size = strlen(move.column) + 1;
    auto *departure =
        static_cast<Departure *>(MemoryContextAlloc(TopTransactionContext, sizeof(Departure) + column_size + state.size()));
    char *column = reinterpret_cast<char *>(departure + 1);
    char *bytes = column + column_size;
    memcpy(column, move.column, column_size);
    if (state.data() != nullptr)
        memcpy(bytes, state.data(), state.size());
    departure->key = move;
    departure->key.column = column;
    departure->state = state.data() != nullptr ? std::string_view(bytes, state.size()) : std::string_view();
    return departure;
}

} // namespace

void note_departure(const MoveKey &move, std::string_view state) {
    forget_at_end_of_transaction();
    Departure *departure = make_departure(move, state);
    if (Departure *stale = take(move))
        pfree(stale);
    departure->next = departures;
    departures = departure;
}

bool take_arrival(const MoveKey &move, std::string_view *state) {
    Departure *taken = take(move);
    if (taken == nullptr)
        return false;
    *state = {};
    if (taken->state.data() != nullptr) {
        auto *copy = static_cast<char *>(palloc(Max(taken->state.size(), 1)));
        memcpy(copy, taken->state.data(), taken->state.size());
        *state = {copy, taken->state.size()};
    }
    pfree(taken);
    return true;
}

} // namespace idem
