// Finding a key's row, wherever the scope's keys are.
//
// The unique index decides which transaction holds a key. `find_row` is a hint (key_search.hpp). A caller that must be certain
// that a key is absent uses `find_row_settled`.
#pragma once

#include "storage/key_record.hpp"
#include "storage/key_search.hpp"

namespace idem {

// What the key's row shows, without a copy of it: enough for most claims. `done`: it is completed, by a transaction that has
// committed and that the caller's snapshot sees, or by this one; and its retention lasts beyond `at`, the time of the reading.
// `absent`: a hint, as of `find_row`. REQUIRES: a space with key columns; the placement is held.
enum class KeyClass { absent, done, other };
KeyClass classify(const KeyTable &table, const text *scope, const text *key, core::Micros *at);

// The same for up to kKeysPerGroup keys. The finder's table is nullptr at first, and the caller closes it. REQUIRES: not in
// recovery; keys in bytewise order, also those of one group and the next.
void classify_group(RowFinder *finder, const KeyTable &table, const text *scope, const text *const *keys, int count,
                    KeyClass *classes);

// Finds one key's row. On a hot standby, the result is that of find_visible_row.
FoundRow find_row(const KeyTable &table, const text *scope, const text *key);

// As find_row, but "absent" is certain: no committed version existed when the call began.
FoundRow find_row_settled(const KeyTable &table, const text *scope, const text *key);

// The row that the caller's snapshot sees, as in a SELECT; never busy. The snapshot may see two rows: one that another
// transaction has deleted since, and one that this transaction inserted in its place. The result is then the latter.
FoundRow find_visible_row(const KeyTable &table, const text *scope, const text *key);

// Raises 40001 if the transaction's snapshot does not see the row version: no result may depend on it.
void require_in_snapshot(const KeyTable &table, const FoundRow &found);

// The values of a found row. By-reference values point into the row.
KeyRow read_row(const KeyTable &table, const FoundRow &found);

// Whether a version that this transaction wrote is still there, and not replaced or deleted since.
bool is_current(const KeyTable &table, const KeyVersion &version);

// Whether idem_keys itself may have a key of the scope, committed or not.
bool may_have_keys(const text *scope);

} // namespace idem
