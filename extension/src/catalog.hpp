// Where idem's own objects are in this database. Found through the extension's membership, never through search_path, and
// checked: a table that is not the plain local one that idem made (partitioned, foreign, unlogged, distributed by another
// extension, replaced) raises 55000 rather than taking a claim to the wrong place.
//
// The answer is cached per backend and thrown away whenever the relation cache says that one of the tables changed, was
// dropped, or was created anew.
#pragma once

#include "core/key_state.hpp"
#include "core/token.hpp"
#include "pg.hpp"

namespace idem {

// Columns of idem_transition_log, by attribute number.
struct LogColumn {
    enum : AttrNumber { target = 1, key, state_column, from_state, to_state, at, by, count = by };
};

// Tables of one layout, served by the same code. A name in one has nothing to do with the same name in another.
enum class KeySpace { keys, tokens, locks, rates };
inline constexpr int kKeySpaces = 4;

// Columns of those tables, by attribute number. Those that every row has come first, so that reading them stays cheap.
struct KeyColumn {
    enum : AttrNumber {
        created_at = 1,
        expires_at,
        attempt,
        state,
        scope,
        key,
        lease_until,
        fence,
        status_code,
        response_omitted,
        owner,
        fingerprint,
        recovery_point,
        response,
        count = response
    };
};

// What becomes of a signed request.
enum class RequestOutcome : int { accepted, replayed, stale, invalid };
inline constexpr int kRequestOutcomes = 4;

struct Catalog {
    Oid extension;
    Oid schema;
    Oid owner;              // of the extension: internal SQL runs as this role
    Oid spaces[kKeySpaces]; // tables, by KeySpace
    Oid scopes;
    Oid counters;
    Oid machines;
    Oid transition_log;
    Oid fence_high_water;
    Oid id_high_water;
    Oid token_secrets;
    Oid api_keys;
    Oid outbox; // this and the next two: invalid where the SQL is of a version that had none
    Oid outbox_leases;
    Oid outbox_parked;
    Oid ticket_type;
    Oid key_info_type;
    Oid outcome_labels[core::kOutcomes];            // enum values, by core::Outcome
    Oid token_outcome_labels[core::kTokenOutcomes]; // by core::TokenOutcome
    Oid request_outcome_labels[kRequestOutcomes];   // and by RequestOutcome
};

const Catalog &catalog();

// Opens one of idem's relations, such as &Catalog::scopes, and locks it. What was found is checked anew after the lock, as the
// wait for it may have been for an ALTER TABLE. Close it as any relation.
Relation open_member(Oid Catalog::*member, LOCKMODE lock);
Relation open_space(KeySpace space, LOCKMODE lock);

// The name of a space's table.
const char *table_of(KeySpace space);

// The same for a relation that is opened call after call: the lock, held until the transaction ends, is asked for once in it.
// `held` is the caller's, static, for this relation and lock only.
struct HeldLock {
    Oid relation;
    LocalTransactionId transaction;
};
Relation open_member(Oid Catalog::*member, LOCKMODE lock, HeldLock *held);

// Each increases whenever what was read from the table has to be read again.
uint64 scopes_generation();
uint64 machines_generation();

// The same for the tables of secrets: of tokens, and of those who sign requests.
uint64 secrets_generation();

// Name of one of idem's objects, quoted and qualified with the schema the extension lives in.
char *qualified_name(const char *object);

// One of idem's trigger functions.
Oid member_trigger_function(const char *name);

// The version of the library, which may differ from that of the SQL installed in this database.
const char *library_version();

// Registers the invalidation callbacks; once per backend.
void catalog_initialize();

} // namespace idem
