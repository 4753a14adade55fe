// Tables of secrets that sign or verify: a few rows each, read as a whole and cached by every session.
//
// A secret is written past the executor and past logical decoding, into a table without indexes and statistics. So no
// statement, parameter, trigger, error message, publication or view ever has one in it. The tables are not dumped. The rows
// that a session has read are overwritten when they are freed, also after an error.
//
// Reading takes AccessShareLock for its own duration. It sees all that has committed by now and this transaction's own
// changes, whatever the isolation level: a deleted secret is out of use at once. A change holds ShareRowExclusiveLock until
// the transaction ends: two changes wait for each other, and no reader waits for a change.
#pragma once

#include "server/hmac.hpp"
#include "storage/member.hpp"

namespace idem {

struct Secret {
    int size; // more than kMaxHmacKeyBytes: the row that it was read from is damaged
    uint8 bytes[kMaxHmacKeyBytes];

    Bytes key() const { return {bytes, static_cast<Size>(size)}; }
};

// A row. The secret is its last column.
struct StoredSecret {
    static constexpr int kMaxValues = 3;
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
    void (*check)(const StoredSecret &row);              // raises when the secret does not have a size that it may have
    // The cache.
    SecretRows *rows;
    uint64 generation;
};

// The rows as they are now, checked. Valid until the next call.
const SecretRows &current_secrets(SecretStore &store);

// A change of the table. It holds from this transaction's commit on, and for this transaction at once.
struct SecretChange {
    Relation table;
    SecretRows *rows; // before the change, unchecked
};
// 25006 in a read-only transaction or on a standby. `function`: for the message.
SecretChange begin_change(const SecretStore &store, const char *function);
// REQUIRES: not damaged.
void insert_secret(const SecretChange &change, const StoredSecret &row);
void delete_secret(const SecretChange &change, const StoredSecret &row);
void end_change(const SecretChange &change);

} // namespace idem
