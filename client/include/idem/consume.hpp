// The inbox of a message consumer: one message id, one effect, per consumer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <idem/client.hpp>
#include <idem/once.hpp>
#include <idem/request.hpp>
#include <idem/transact.hpp>

namespace idem {

struct consume_options {
    /// How long an id is remembered: longer than the broker may redeliver. Nothing: the scope's.
    std::optional<duration> ttl;
    /// `consume`: for another worker that has the same message in hand and has not committed. in_flight is thrown when it takes
    /// longer.
    patience wait = patience::forever();
    flow_options flow;
    /// The ids are keys of this scope, as idem_key(consumer, message_id).
    std::string scope = "inbox";
};

namespace detail {

/// As the server's idem_key(consumer, message_id).
std::string inbox_key(const std::string &consumer, const std::string &message_id);
request inbox_request(const std::string &consumer, const std::string &message_id, const consume_options &options);
command inbox_step(const std::string &consumer, const std::vector<std::string> &message_ids, const consume_options &options);
/// Those of `message_ids` whose keys the step answered with.
std::vector<std::string> inbox_fresh(const rows &answer, const std::string &consumer,
                                     const std::vector<std::string> &message_ids);

} // namespace detail

/// Runs `work(transaction &)` once for this message. True: this call did it. False: it was done before, and has committed.
/// Either way the message may be acknowledged. When `work` throws, all is rolled back, the message counts as not seen, and the
/// exception goes on to the caller.
///
/// Two round trips on top of the work's own; one for a message that was seen. Retries, lost connections and a lost reply to
/// COMMIT are handled as in `once`. Throws what `once` throws, mismatch excepted.
template <typename F>
bool consume(client &db, const std::string &consumer, const std::string &message_id, F &&work,
             const consume_options &options = {}) {
    const request about = detail::inbox_request(consumer, message_id, options);
    detail::once_flow flow{db, about, options.flow};
    for (;;) {
        try {
            if (const std::optional<answer> known = flow.begin())
                return !known->replayed;
            work(flow.tx());
            flow.commit();
            return true;
        } catch (...) {
            flow.failed(std::current_exception());
        }
    }
}

/// The same for a batch, in one transaction: `work(transaction &, const std::vector<std::string> &new_ids)` runs once with
/// those that are new, each once, in their order; not at all when none is. All or none commit. Waits for other workers without
/// bound; two batches cannot deadlock on their ids.
///
/// When it returns, all messages are done and may be acknowledged. It returns the new ids. When the reply to COMMIT was lost,
/// it runs again: what had committed is not new any more, and so not among the ids it returns.
template <typename F>
std::vector<std::string> consume_many(client &db, const std::string &consumer, const std::vector<std::string> &message_ids,
                                      F &&work, const consume_options &options = {}) {
    return detail::run_flow(
        db, options.flow,
        [&](detail::flow &run) {
            const std::vector<std::string> fresh =
                detail::inbox_fresh(run.begin(detail::inbox_step(consumer, message_ids, options)), consumer, message_ids);
            if (fresh.empty()) {
                run.cancel();
            } else {
                run.settled(); // an attempt before this one would have taken them all
                work(run.tx(), fresh);
                run.commit();
            }
            return fresh;
        },
        true);
}

} // namespace idem
