// The extension's own relations. Each is declared by the file that reads and writes it.
//
// A relation is checked when it is opened, after it is locked. It must be the plain local relation that CREATE EXTENSION made,
// or else a claim could be stored in the wrong place. One that is partitioned, foreign, unlogged, distributed by another
// extension, replaced or has other columns raises 55000. A call opens only the relations that it needs, so another relation's
// lock or fault does not affect it.
//
// Each backend caches the result of the check until the relation cache reports that the relation changed or was dropped.
#pragma once

#include "server/pg.hpp"

namespace idem {

inline constexpr bool kNullable = true;

struct Column {
    const char *name;
    Oid type;
    bool is_nullable = false;
};

// The relation as CREATE EXTENSION made it.
struct MemberLayout {
    const char *name;
    char kind; // RELKIND_RELATION or RELKIND_SEQUENCE
    const Column *columns;
    int count;
    AttrNumber key[2];              // columns of the primary key; 0: no further column
    int checks;                     // the number of CHECK constraints, or kAnyChecks
    bool holds_secrets;             // rows are written without index entries and without logical decoding
    bool (*is_child)(Oid relation); // whether a relation may inherit from it; nullptr: none may
    const MemberLayout *parent;     // the one that it inherits from; it then does not belong to the extension itself
};
// For tables that the executor writes, as it checks the constraints; and for tables of secrets, as no constraint may see them.
inline constexpr int kAnyChecks = -1;

// A constinit global for each relation. The members after `layout` are this backend's cache.
struct Member {
    MemberLayout layout;
    Oid relation; // the one that was last opened
    bool is_checked;
    uint64 generation; // increases whenever data read from the relation becomes stale
    struct {
        Oid relation;
        LocalTransactionId transaction;
        LOCKMODE lock;
    } held;             // a lock that is held until the end of that transaction
    bool is_registered; // in the list that `next` forms, whose members hear of changes
    Member *next;
};

template <int count>
constexpr Member member_table(const char *name, const Column (&columns)[count], AttrNumber first_key, AttrNumber second_key,
                              int checks = 0) {
    return {{name, RELKIND_RELATION, columns, count, {first_key, second_key}, checks, false, nullptr, nullptr},
            InvalidOid,
            false,
            1,
            {},
            false,
            nullptr};
}
template <int count> constexpr Member member_of_secrets(const char *name, const Column (&columns)[count]) {
    return {{name, RELKIND_RELATION, columns, count, {0, 0}, kAnyChecks, true, nullptr, nullptr},
            InvalidOid,
            false,
            1,
            {},
            false,
            nullptr};
}
constexpr Member member_sequence(const char *name) {
    return {{name, RELKIND_SEQUENCE, nullptr, 0, {0, 0}, kAnyChecks, false, nullptr, nullptr},
            InvalidOid,
            false,
            1,
            {},
            false,
            nullptr};
}

// Opens a relation that a lock protects already: its own, or for an index that of its table.
Relation open_locked_relation(Oid oid);

// Opens, locks and checks the relation; 55000 if the check fails. The caller closes it as any relation.
Relation open_member(Member &member, LOCKMODE lock);

// As open_member, but returns nullptr instead of waiting for the lock.
Relation open_member_if_unlocked(Member &member, LOCKMODE lock);

// As open_member, for a relation that is opened in many calls of a transaction. The lock is acquired once in the transaction
// and held until its end.
Relation open_member_held(Member &member, LOCKMODE lock);

// The relation's name for the extension's own SQL, quoted and qualified. Checks the relation and leaves it locked for reading.
char *member_name(Member &member);

// Makes the other sessions read the relation again after this transaction's commit, and this session at the next command.
void invalidate_member(const Member &member);

// Member::generation, after the changes of other sessions were received.
uint64 generation_of(Member &member);

// Registers for changes of relations. REQUIRES: called once per backend.
void members_initialize();

} // namespace idem
