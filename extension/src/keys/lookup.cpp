// idem_lookup: the state of a key as the caller's snapshot sees it. It writes nothing, never waits, and works on a standby.
#include "keys/key_types.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "storage/key_lookup.hpp"

namespace {

using namespace idem;
using core::State;

// Columns of the result, in order.
struct InfoColumn {
    enum { state, status_code, response, response_omitted, attempt, steps, created_at, expires_at, lease_until, count };
};

const char *state_name(State value) {
    switch (value) {
    case State::in_progress:
        return "in_progress";
    case State::completed:
        return "completed";
    case State::released:
        return "released";
    case State::in_doubt:
        return "in_doubt";
    }
    elog(ERROR, "unknown state \"%c\" of a key", static_cast<char>(value));
}

struct Info {
    Datum values[InfoColumn::count] = {};
    bool nulls[InfoColumn::count] = {};

    void copy(int column, const KeyRow &row, AttrNumber from) {
        values[column] = row.get(from);
        nulls[column] = row.is_null(from);
    }
};

void put_info(const AnswerRows &rows, const KeyRow &row) {
    Info info;
    info.values[InfoColumn::state] = CStringGetTextDatum(state_name(state_of(row)));
    info.copy(InfoColumn::status_code, row, KeyColumn::status_code);
    info.copy(InfoColumn::response, row, KeyColumn::response);
    info.values[InfoColumn::response_omitted] = BoolGetDatum(!row.is_null(KeyColumn::response_omitted));
    info.copy(InfoColumn::attempt, row, KeyColumn::attempt);
    info.copy(InfoColumn::steps, row, KeyColumn::steps);
    info.copy(InfoColumn::created_at, row, KeyColumn::created_at);
    info.copy(InfoColumn::expires_at, row, KeyColumn::expires_at);
    info.copy(InfoColumn::lease_until, row, KeyColumn::lease_until);
    put_answer_row(rows, info.values, info.nulls);
}

// Finds the live key that the snapshot sees. Returns false if there is none.
bool find_live(const KeyTable &table, const text *scope, const text *key, const ScopePolicy &policy, KeyRow *row) {
    const FoundRow found = find_visible_row(table, scope, key);
    if (found.presence != Presence::found)
        return false;
    *row = read_row(table, found);
    const core::KeyFacts facts = facts_of(*row, found.own_transaction, policy.manual_on_lease_expiry);
    return !core::is_expired(facts, found.at);
}

} // namespace

SQL_FUNCTION(idem_lookup) {
    const text *key = key_argument(fcinfo, 0);
    const text *scope = scope_argument(fcinfo, 1);
    const ScopePolicy policy = scope_policy(scope);
    static_assert(key_info_type.count == InfoColumn::count);
    const AnswerRows rows = begin_answer_rows(fcinfo, key_info_type);
    const KeyTable table = open_keys(Access::read, KeySpace::keys, scope);
    KeyRow row;
    if (find_live(table, scope, key, policy, &row))
        put_info(rows, row);
    close_keys(table);
    return Datum{0};
}

SQL_FUNCTION(idem_is_owner) {
    const text *key = key_argument(fcinfo, 0);
    const text *owner = required_text(fcinfo, 1, "owner");
    const text *scope = scope_argument(fcinfo, 2);
    const ScopePolicy policy = scope_policy(scope);
    const KeyTable table = open_keys(Access::read, KeySpace::keys, scope);
    KeyRow row;
    const bool owns = find_live(table, scope, key, policy, &row) && is_owner(row, owner);
    close_keys(table);
    PG_RETURN_BOOL(owns);
}
