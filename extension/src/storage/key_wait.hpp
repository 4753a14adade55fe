// Waiting for the transaction that holds a key's row.
#pragma once

#include "storage/key_lookup.hpp"

namespace idem {

// Waits until the transaction that holds a busy key ends, or finishes its insertion. It is an ordinary lock wait: deadlocks are
// detected, and lock_timeout, statement_timeout and cancel apply.
void wait_for_holder(const KeyTable &table, const FoundRow &busy);

// As wait_for_holder, for at most `limit` microseconds. False: that time has passed. The caller's own lock_timeout still
// raises its error.
bool wait_for_holder_within(const KeyTable &table, const FoundRow &busy, core::Micros limit);

// As wait_for_holder_within, for a transaction that has locked a row.
void wait_for_transaction(const KeyTable &table, TransactionId holder, const KeyVersion &version);
bool wait_for_transaction_within(const KeyTable &table, TransactionId holder, const KeyVersion &version, core::Micros limit);

// One of the other open transactions that have locked or replaced this version, or InvalidTransactionId.
TransactionId locker_of(const KeyTable &table, const KeyVersion &version);

// As find_row_settled, after waiting until no other transaction's change of the key is pending. Messages name `function`.
FoundRow find_row_waiting(const KeyTable &table, const text *scope, const text *key, const char *function);

} // namespace idem
