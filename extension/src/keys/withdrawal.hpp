// A release without a fence: the calling transaction gives its own claim back, and the key is as before the claim.
#pragma once

#include "storage/key_lookup.hpp"
#include "storage/key_store.hpp"

namespace idem {

// REQUIRES: `claim` is the key's row, and a claim of this transaction without a lease. `manual_policy`: as in core::KeyFacts.
Write withdraw_claim(const KeyTable &table, const FoundRow &claim, const text *scope, const text *key, bool manual_policy);

} // namespace idem
