// idem_lookup: what became of a key, as the caller's snapshot sees it. Writes nothing, waits for nobody, works on a standby.
#include "keys/key_types.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "storage/key_store.hpp"

namespace {

using namespace idem;
using core::State;

enum InfoColumn {
    state,
    status_code,
    response,
    response_omitted,
    attempt,
    recovery_point,
    created_at,
    expires_at,
    lease_until,
    is_owner,
    columns
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
    Datum values[columns] = {};
    bool nulls[columns] = {};

    void copy(InfoColumn column, const KeyRow &row, AttrNumber from) {
        values[column] = row.get(from);
        nulls[column] = row.is_null(from);
    }
};

void put_info(const AnswerRows &rows, const KeyRow &row, const text *owner) {
    Info info;
    info.values[state] = CStringGetTextDatum(state_name(state_of(row)));
    info.copy(status_code, row, KeyColumn::status_code);
    info.copy(response, row, KeyColumn::response);
    info.values[response_omitted] = BoolGetDatum(!row.is_null(KeyColumn::response_omitted));
    info.copy(attempt, row, KeyColumn::attempt);
    info.copy(recovery_point, row, KeyColumn::recovery_point);
    info.copy(created_at, row, KeyColumn::created_at);
    info.copy(expires_at, row, KeyColumn::expires_at);
    info.copy(lease_until, row, KeyColumn::lease_until);
    info.values[is_owner] = BoolGetDatum(idem::is_owner(row, owner));
    put_answer_row(rows, info.values, info.nulls);
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_lookup);

PGDLLEXPORT Datum idem_lookup(PG_FUNCTION_ARGS) {
    const text *key = key_argument(fcinfo, 0);
    const text *owner = optional_text(fcinfo, 1);
    const text *scope = scope_argument(fcinfo, 2);
    const ScopePolicy policy = scope_policy(scope);
    Assert(key_info_type.count == columns);
    const AnswerRows rows = begin_answer_rows(fcinfo, key_info_type);
    const KeyTable table = open_keys(Access::read, KeySpace::keys);
    const Probe found = probe_snapshot(table, scope, key);
    if (found.presence == Presence::found) {
        const KeyRow row = read_row(table, found);
        const core::KeyFacts facts = facts_of(row, found.own_transaction, policy.manual_on_lease_expiry);
        if (!core::is_expired(facts, clock_now()))
            put_info(rows, row, owner);
    }
    close_keys(table);
    return Datum{0};
}

} // extern "C"
