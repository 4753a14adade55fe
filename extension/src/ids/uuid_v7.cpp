// idem_uuid_v7: UUIDs that sort by the time at which they were generated. The only state is this backend's last stamp.
#include "core/uuid_v7.hpp"
#include "server/arguments.hpp"
#include "server/random.hpp"

namespace {

using namespace idem;

constinit core::UuidStamp last_stamp = 0;

} // namespace

SQL_FUNCTION(idem_uuid_v7) {
    uint8 random[core::kUuidRandomBytes];
    fill_random(random, sizeof random);
    last_stamp = core::next_uuid_stamp(last_stamp, core::uuid_stamp(clock_now()));
    const core::Uuid bytes = core::make_uuid_v7(last_stamp, random);
    auto *uuid = static_cast<pg_uuid_t *>(palloc(sizeof(pg_uuid_t)));
    memcpy(uuid->data, bytes.data(), sizeof uuid->data);
    PG_RETURN_UUID_P(uuid);
}
