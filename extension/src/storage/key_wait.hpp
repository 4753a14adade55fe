// Waiting for the transaction that holds a key's row.
#pragma once

#include "storage/key_lookup.hpp"

namespace idem {

// Waits until the transaction that holds a busy key ends, or finishes its insertion. It is an ordinary lock wait: deadlocks are
// detected, and lock_timeout, statement_timeout and cancel apply.
void wait_for_holder(const KeyTable &table, const Probe &busy);

// As wait_for_holder, for at most `patience` microseconds. False: that time has passed. The caller's own lock_timeout still
// raises its error.
bool wait_for_holder_within(const KeyTable &table, const Probe &busy, core::Micros patience);

// As wait_for_holder_within, for a transaction that has locked a row.
void wait_for_transaction(const KeyTable &table, TransactionId holder, const KeyVersion &version);
bool wait_for_transaction_within(const KeyTable &table, TransactionId holder, const KeyVersion &version, core::Micros patience);

// One of the other open transactions that have locked or replaced this version, or InvalidTransactionId.
TransactionId locker_of(const KeyTable &table, const KeyVersion &version);

// As probe_settled, after waiting until no other transaction's change of the key is pending. Messages name `function`.
Probe probe_waiting(const KeyTable &table, const text *scope, const text *key, const char *function);

} // namespace idem
