// The outbox: messages that commit with the business rows, and the calls of a relay that sends them to a broker
// (docs/outbox.md). For consumers: idem/consume.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <idem/request.hpp>
#include <idem/target.hpp>

namespace idem {

struct outgoing_message {
    std::string topic;
    std::string payload; ///< JSON text
    /// Messages of a topic with the same key are delivered in order, one at a time. Nothing: in any order.
    std::optional<std::string> key{};
    std::optional<std::string> headers{}; ///< JSON text
};

/// Publishes a message and returns its id. In a transaction the message exists when that commits; on a client at once, and a
/// lost reply throws outcome_unknown. One round trip.
std::int64_t publish(const target &at, const outgoing_message &message);

/// A message as a relay receives it.
struct taken_message {
    std::int64_t id;
    std::string topic;
    std::optional<std::string> key;
    std::string payload;                ///< JSON text
    std::optional<std::string> headers; ///< JSON text
    int attempt;                        ///< from 1
};

/// The messages of one take.
struct batch {
    std::int64_t fence = 0; ///< for ack and nack
    std::vector<taken_message> messages;
    std::vector<std::int64_t> ids() const;
};

/// Takes the next messages of a topic, oldest first, under one lease: at most `max_messages`, one of each key.
/// Empty: no message is ready. The take must have committed before messages are sent: call it on a client, or commit. One round
/// trip; retried after a lost reply, whose messages are redelivered when their lease is over.
batch take(const target &at, const std::string &topic, int max_messages = 100, duration lease = std::chrono::seconds(30));

/// Deletes delivered messages. Returns how many of them the lease still held; another relay has taken or delivered the others.
/// One round trip; retried after a lost reply, and then the number may be too low.
int ack(const target &at, const std::vector<std::int64_t> &ids, std::int64_t fence);

/// Returns undelivered messages to the outbox. They are redelivered after `retry_after`; nothing: 1 s, doubled with each
/// failure, at most 5 min. The result is that of ack.
int nack(const target &at, const std::vector<std::int64_t> &ids, std::int64_t fence,
         const std::optional<duration> &retry_after = std::nullopt);

} // namespace idem
