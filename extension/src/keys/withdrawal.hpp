// A release without a fence: the calling transaction gives its own claim back, and the key is as before the claim.
#pragma once

#include "keys/holder.hpp"
#include "storage/key_store.hpp"

namespace idem {

inline bool is_withdrawal(const HolderCall &call) { return call.change == core::Change::release && !call.has_fence; }

// REQUIRES: `claim` is the key's row, and a claim of this transaction without a lease.
Write withdraw_claim(const KeyTable &table, const FoundRow &claim, const HolderCall &call);

} // namespace idem
