// Unique numbers and UUIDs (docs/ids.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <idem/target.hpp>

namespace idem {

/// A number greater than all earlier ones of this database. One round trip; retried after a lost connection. A rollback does
/// not give the number back. Throws read_only on a standby.
std::int64_t next_id(const target &at);
/// `count` numbers in increasing order, in one round trip.
std::vector<std::int64_t> next_ids(const target &at, std::size_t count);
/// A UUID of version 7; those of one connection increase. Writes nothing.
std::string uuid_v7(const target &at);

} // namespace idem
