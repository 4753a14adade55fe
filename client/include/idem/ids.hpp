// Numbers and UUIDs that nobody else gets (docs/ids.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <idem/target.hpp>

namespace idem {

/// A number greater than all before it in this database. One round trip; run again after a lost connection, as an unused number
/// is no loss. A rollback gives none back. Throws read_only on a standby.
std::int64_t next_id(const target &at);
/// `count` of them, growing, in one round trip.
std::vector<std::int64_t> next_ids(const target &at, std::size_t count);
/// A UUID of version 7: those of one connection grow. Writes nothing.
std::string uuid_v7(const target &at);

} // namespace idem
