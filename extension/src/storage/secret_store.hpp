// Tables of secrets that sign or verify. Each has a few rows, which every session reads as a whole and caches.
//
// Secrets are written without the executor and without logical decoding, into tables without indexes and statistics. No
// statement, parameter, trigger, error message, publication or view therefore contains a secret. The tables are not dumped. The
// rows that a session has read are overwritten when they are freed, also after an error.
//
// A read acquires AccessShareLock and releases it at its end. At any isolation level, it sees all committed changes and those
// of this transaction, so a deleted secret is rejected immediately. A change holds ShareRowExclusiveLock until the transaction
// ends. Two changes wait for each other, and no reader waits for a change.
#pragma once

#include "server/hmac.hpp"
#include "storage/member.hpp"

namespace idem {

struct Secret {
    int size; // more than kMaxHmacKeyBytes: the stored row is damaged
    uint8 bytes[kMaxHmacKeyBytes];

    Bytes key() const { return {bytes, static_cast<Size>(size)}; }
};

// A row. The secret is its last column.
struct StoredSecret {
    static constexpr int kMaxValues = 5;
    Datum values[kMaxValues]; // of the other columns; a text lives as long as the SecretRows
    Secret secret;
    ItemPointerData version;

    Datum get(AttrNumber column) const { return values[column - 1]; }
    void set(AttrNumber column, Datum value) { values[column - 1] = value; }
};

struct SecretRows {
    StoredSecret *list; // in the store's order
    int count;
    int capacity;
    MemoryContext memory; // deleting it overwrites the list
    MemoryContextCallback overwrite;
};

// A constinit global for each table.
struct SecretStore {
    Member &table;
    int (*compare)(const void *left, const void *right); // two StoredSecret, for qsort
    bool (*is_intact)(const StoredSecret &row);          // false: the row was damaged, and cannot be used
    void (*raise_damaged)(const StoredSecret &row);
    SecretRows *rows; // the cache, valid while `generation` is current
    uint64 generation;
};

// The current rows, checked. Valid until the next call.
const SecretRows &current_secrets(SecretStore &store);

// A change of the table. This transaction sees it immediately, other transactions after the commit.
struct SecretChange {
    Relation table;
    SecretRows *rows; // before the change, unchecked
};
// Raises 25006 in a read-only transaction or on a standby. Messages name `function`.
SecretChange begin_change(const SecretStore &store, const char *function);
// REQUIRES: the row is not damaged.
void insert_secret(const SecretChange &change, const StoredSecret &row);
void delete_secret(const SecretChange &change, const StoredSecret &row);
void end_change(const SecretChange &change);

} // namespace idem
