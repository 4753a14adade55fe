// Messages on their way into the outbox.
#pragma once

#include "outbox/outbox.hpp"

namespace idem {

struct NewMessage {
    const text *key; // or nullptr
    Datum payload;
    Datum headers;         // 0: none
    core::Micros delay;    // from its insertion on; 0: none
    const text *dedup_key; // idem_key(topic, dedup_id); nullptr: published whatever was published before
};

// The delay of a message: 22023 when it is negative or infinite.
core::Micros delay_of(const Interval *delay);

// The key under which a dedup_id of the topic is claimed: 22023 when it is empty or too long.
const text *dedup_key(const text *topic, const text *dedup_id);

// An id of 0: a message with this dedup_id was published before, and its id is not stored any more.
inline constexpr int64 kForgottenId = 0;

// Publishes the messages in their order, and sets the id of each: of those whose dedup_id was published before, the first
// one's. Waits for transactions that publish the same dedup_ids. Wakes relays once. REQUIRES: prevent_unless_writable was
// called.
void publish(const char *function, const text *topic, const NewMessage *messages, int count, int64 *ids);

} // namespace idem
