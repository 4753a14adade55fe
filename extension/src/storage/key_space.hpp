// The tables of one layout, served by the same code (key_store.hpp). A name in one has nothing to do with the same name in
// another.
#pragma once

#include "storage/member.hpp"

namespace idem {

enum class KeySpace { keys, tokens, locks, rates };
inline constexpr int kKeySpaces = 4;

// Their columns, by attribute number. Those that every row has come first, so that reading them stays cheap.
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

extern Member key_tables[kKeySpaces];

inline Member &table_of(KeySpace space) { return key_tables[static_cast<int>(space)]; }

} // namespace idem
