// Finding a key's row, wherever the scope's keys are.
//
// The unique index decides which transaction holds a key. `probe` is a hint (key_search.hpp). A caller that must be certain
// that a key is absent uses `probe_settled`.
#pragma once

#include "storage/key_record.hpp"
#include "storage/key_search.hpp"

namespace idem {

// What a look at the key's row shows: enough for most claims. `done`: it is completed, by a transaction that has committed and
// that the caller's snapshot sees, or by this one; and its retention lasts beyond `at`, the time of the look. `absent`: a hint,
// as of `probe`. REQUIRES: a space with key columns; a look.
enum class Glance { absent, done, other };
Glance glance(const KeyTable &table, const text *scope, const text *key, core::Micros *at);

// The same for up to kKeysPerGroup keys. The prober's table is nullptr at first, and the caller ends it. REQUIRES: not in
// recovery; keys in bytewise order, also those of one group and the next.
void glance_at_group(Prober *prober, const KeyTable &table, const text *scope, const text *const *keys, int count,
                     Glance *glances);

// Looks for one key. On a hot standby, the result is that of probe_snapshot.
Probe probe(const KeyTable &table, const text *scope, const text *key);

// As probe, but "absent" is certain: no committed version existed when the call began.
Probe probe_settled(const KeyTable &table, const text *scope, const text *key);

// The row that the caller's snapshot sees, as in a SELECT; never busy. The snapshot may see two rows: one that another
// transaction has deleted since, and one that this transaction inserted in its place. The result is then the latter.
Probe probe_snapshot(const KeyTable &table, const text *scope, const text *key);

// Raises 40001 if the transaction's snapshot does not see the row version: no result may depend on it.
void require_in_snapshot(const KeyTable &table, const Probe &found);

// The values of a found row. By-reference values point into the row.
KeyRow read_row(const KeyTable &table, const Probe &found);

// Whether a version that this transaction wrote is still there, and not replaced or deleted since.
bool is_current(const KeyTable &table, const KeyVersion &version);

// Whether idem_keys itself may have a key of the scope, committed or not.
bool may_have_keys(const text *scope);

} // namespace idem
