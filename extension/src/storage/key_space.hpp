// The tables whose rows have a key: keys, tokens, locks, rates and counters. The same code (key_table.hpp) reads and writes
// them. Each table is a name space of its own.
#pragma once

#include "storage/member.hpp"

namespace idem {

// Keys, tokens and locks have the layout of KeyColumn. Tokens and locks are claims with other rules, so one layout lets them
// share the code of claims; the columns that they do not use are NULL and take no room.
enum class KeySpace { keys, tokens, locks, rates, counters };
inline constexpr KeySpace kKeySpaces[] = {KeySpace::keys, KeySpace::tokens, KeySpace::locks, KeySpace::rates,
                                          KeySpace::counters};

inline bool has_key_columns(KeySpace space) { return space <= KeySpace::locks; }

// Attribute numbers. The columns that are never null come first, so that reading them stays cheap.
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
        completed_at,
        status_code,
        response_omitted,
        owner,
        fingerprint,
        steps,
        response,
        count = response
    };
};

struct RateColumn {
    enum : AttrNumber { expires_at = 1, as_of, full_at, scope, key, count = key };
};

struct CounterColumn {
    enum : AttrNumber { expires_at = 1, hits, scope, key, count = key };
};

Member &table_of(KeySpace space);

// A window of a ring, which inherits from idem_keys. `name` outlives it.
Member member_window(const char *name);

} // namespace idem
