// The outbox: messages that commit with the business rows, and the calls of a relay that sends them to a broker
// (docs/outbox.md). For consumers: idem/consume.hpp.
#pragma once

#include <chrono>
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
    /// The message is not given to relays before this time has passed, and neither are later messages of its key.
    std::optional<duration> delay{};
    /// A second publication of the topic with the same dedup_id publishes nothing, for as long as the scope "outbox" says.
    std::optional<std::string> dedup_id{};
};

/// Publishes a message and returns its id. With a dedup_id that was published before, it returns the first message's id, or
/// nothing when that id was removed. Otherwise there is always an id.
///
/// In a transaction the message exists when that commits; on a client at once. A lost reply throws outcome_unknown; with a
/// dedup_id the call is retried instead. Waits for another transaction that publishes the same dedup_id. One round trip.
std::optional<std::int64_t> publish(const target &at, const outgoing_message &message);

/// A message for publish_many. The members are those of outgoing_message.
struct bulk_message {
    std::string payload; ///< JSON text
    std::optional<std::string> key{};
    std::optional<std::string> headers{}; ///< JSON text
    std::optional<duration> delay{};
    std::optional<std::string> dedup_id{};
};

/// Publishes many messages of one topic and returns what `publish` would, in the order of `messages`. The same dedup_id twice
/// is one message, the first. All are published, or none. A lost reply is retried if each message has a dedup_id. One round
/// trip.
std::vector<std::optional<std::int64_t>> publish_many(const target &at, const std::string &topic,
                                                      const std::vector<bulk_message> &messages);

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
    std::int64_t fence = 0; ///< for ack, nack and renew
    std::vector<taken_message> messages;
    std::vector<std::int64_t> ids() const;
};

/// Takes the next messages of a topic, oldest first, under one lease: at most `max_messages`, one of each key.
/// Empty: no message is ready. The take must have committed before messages are sent: call it on a client, or commit. One round
/// trip; retried after a lost reply, whose messages are redelivered when their lease is over.
batch take(const target &at, const std::string &topic, int max_messages = 100, duration lease = std::chrono::seconds(30));

/// Deletes delivered messages. Returns how many of them the lease still held; the others were acknowledged or returned before,
/// or another relay has taken them. One round trip; retried after a lost reply, and then the number may be too low.
int ack(const target &at, const std::vector<std::int64_t> &ids, std::int64_t fence);

/// Returns undelivered messages to the outbox. They are redelivered after `retry_after`; nothing: 1 s, doubled with each
/// failure, at most 5 min. The result is that of ack.
int nack(const target &at, const std::vector<std::int64_t> &ids, std::int64_t fence,
         const std::optional<duration> &retry_after = std::nullopt);

/// Keeps messages of a batch for `lease` from now on, because sending takes longer. The other messages of the batch keep the
/// end of their lease. Returns how many messages the lease still held; a relay stops sending the others. One round trip;
/// retried after a lost reply.
int renew(const target &at, const std::vector<std::int64_t> &ids, std::int64_t fence, duration lease);

/// The messages of a topic, each counted once.
struct topic_backlog {
    using time = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

    std::string topic;
    std::int64_t ready;         ///< can be taken, unless an earlier message of their key is not done
    std::int64_t delayed;       ///< their delay, or their rest after a failure, is not over
    std::int64_t leased;        ///< relays have them
    std::int64_t parked;        ///< failed too often: dead letters
    std::optional<time> oldest; ///< when the oldest message that is not parked was published, by the server's clock
};

/// Counts the waiting messages of each topic. Reads the whole outbox. For operators. One round trip.
std::vector<topic_backlog> backlog(const target &at);

} // namespace idem
