// Messages that commit with the business rows, and the relay that hands them to a broker (docs/outbox.md). For consumers:
// idem/consume.hpp.
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
    /// Messages of a topic with the same key are given out in order, one after the other. Nothing: in any order.
    std::optional<std::string> key{};
    std::optional<std::string> headers{}; ///< JSON text
};

/// Puts a message into the outbox, and returns its id. In a transaction it is there when that commits; on a client at once, and
/// a lost reply is outcome_unknown. One round trip.
std::int64_t publish(const target &at, const outgoing_message &message);

/// A message as a relay gets it.
struct taken_message {
    std::int64_t id;
    std::string topic;
    std::optional<std::string> key;
    std::string payload;                ///< JSON text
    std::optional<std::string> headers; ///< JSON text
    int attempt;                        ///< from 1
};

/// What one take gave out.
struct batch {
    std::int64_t fence = 0; ///< for ack and nack
    std::vector<taken_message> messages;
    std::vector<std::int64_t> ids() const;
};

/// The next messages of a topic, oldest first, under one lease: at most `most`, and at most 400; of each key one. Empty: there
/// is nothing to do now. Take on a client, or commit, before sending. One round trip; run again after a lost reply: what that
/// had given out comes back when its lease is over.
batch take(const target &at, const std::string &topic, int most = 100, duration lease = std::chrono::seconds(30));

/// The messages were delivered: deletes them. Returns how many the lease still held; the others somebody else delivers, or has.
/// One round trip; run again after a lost reply, and then it may count less than it did.
int ack(const target &at, const std::vector<std::int64_t> &ids, std::int64_t fence);

/// They were not: gives them back. `rest`: for so long; nothing: 1 s, twice as much with each failure, at most 5 min. Returns
/// as ack does.
int nack(const target &at, const std::vector<std::int64_t> &ids, std::int64_t fence,
         const std::optional<duration> &rest = std::nullopt);

} // namespace idem
