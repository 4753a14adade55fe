// The extension's own relations. Each is declared by the file that reads and writes it, and checked when it is opened, after
// its lock: one that is not the plain local relation that CREATE EXTENSION made (partitioned, foreign, unlogged, distributed by
// another extension, replaced, of other columns) raises 55000 rather than taking a claim to the wrong place. A relation that a
// call does not need is not looked at, so its lock or its fault stops nobody else.
//
// The verdict is cached per backend until the relation cache says that the relation changed or was dropped.
#pragma once

#include "server/pg.hpp"

namespace idem {

inline constexpr bool kNullable = true;

struct Column {
    const char *name;
    Oid type;
    bool is_nullable = false;
};

// What the relation must be.
struct MemberLayout {
    const char *name;
    char kind; // RELKIND_RELATION or RELKIND_SEQUENCE
    const Column *columns;
    int count;
    AttrNumber key[2];  // columns of the primary key, which a table is searched by; 0: no more
    int checks;         // how many CHECK constraints, or kAnyChecks
    bool holds_secrets; // written past indexes and logical decoding
};
// The executor writes the table and asks its constraints; or no constraint may see what is written.
inline constexpr int kAnyChecks = -1;

// A constinit global for each relation.
struct Member {
    MemberLayout layout;
    // What is cached.
    Oid relation; // the one that was last opened
    bool is_checked;
    uint64 generation; // increases whenever what was read from the relation has to be read again
    struct {
        Oid relation;
        LocalTransactionId transaction;
        LOCKMODE lock;
    } held;          // the lock that is known to be held until the end of that transaction
    bool is_watched; // by the invalidation callback, and then:
    Member *next;
};

template <int count>
constexpr Member member_table(const char *name, const Column (&columns)[count], AttrNumber first_key, AttrNumber second_key,
                              int checks = 0) {
    return {{name, RELKIND_RELATION, columns, count, {first_key, second_key}, checks, false},
            InvalidOid,
            false,
            1,
            {},
            false,
            nullptr};
}
template <int count> constexpr Member member_of_secrets(const char *name, const Column (&columns)[count]) {
    return {{name, RELKIND_RELATION, columns, count, {0, 0}, kAnyChecks, true}, InvalidOid, false, 1, {}, false, nullptr};
}
constexpr Member member_sequence(const char *name) {
    return {{name, RELKIND_SEQUENCE, nullptr, 0, {0, 0}, kAnyChecks, false}, InvalidOid, false, 1, {}, false, nullptr};
}

// Opens, locks and checks the relation. Close it as any relation.
Relation open_member(Member &member, LOCKMODE lock);

// The same for a relation that is opened call after call: the lock, held until the transaction ends, is asked for once in it.
Relation open_member_held(Member &member, LOCKMODE lock);

// Its name for SQL of the extension's own, quoted and qualified, when it was checked. It stays locked as for reading.
char *member_name(Member &member);

// Makes every session read the relation again when this transaction has committed, and this one at the next command.
void invalidate_member(const Member &member);

// As Member::generation, when what other sessions changed has been learnt.
uint64 generation_of(Member &member);

// Registers the invalidation callback; once per backend.
void members_initialize();

} // namespace idem
