// The inbox of a message consumer: each message id has one effect per consumer.
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
    /// How long an id is kept: longer than the broker may redeliver the message. Nothing: the scope's ttl.
    std::optional<duration> ttl;
    /// `consume`: how long to wait for another worker that processes the same message. Then in_flight is thrown.
    wait_limit wait = wait_limit::forever();
    flow_options flow;
    /// The ids are keys of this scope, as idem_key(consumer, message_id).
    std::string scope = "inbox";
};

namespace detail {

/// The value of idem_key(consumer, message_id).
std::string inbox_key(const std::string &consumer, const std::string &message_id);
request inbox_request(const std::string &consumer, const std::string &message_id, const consume_options &options);
command inbox_step(const std::string &consumer, const std::vector<std::string> &message_ids, const consume_options &options);
/// Those of `message_ids` whose keys are in the answer of the step.
std::vector<std::string> new_message_ids(const rows &answer, const std::string &consumer,
                                         const std::vector<std::string> &message_ids);

} // namespace detail

/// Runs `work(transaction &)` once for this message. True: this call did it. False: it was done before, and has committed.
/// Either way the message may be acknowledged. When `work` throws, everything is rolled back, the message counts as not seen,
/// and the caller receives the exception.
///
/// Two round trips in addition to those of the work; one for a message that was seen before. Retries, lost connections and a
/// lost reply to COMMIT are handled as in `once`. Throws the same errors as `once`, except mismatch.
template <typename F>
bool consume(client &db, const std::string &consumer, const std::string &message_id, const consume_options &options, F &&work) {
    static_assert(detail::is_work<F>, "work is called as work(idem::transaction &)");
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
template <typename F> bool consume(client &db, const std::string &consumer, const std::string &message_id, F &&work) {
    return consume(db, consumer, message_id, consume_options{}, std::forward<F>(work));
}

/// The same for a batch, in one transaction: `work(transaction &, const std::vector<std::string> &new_ids)` runs once with the
/// new ids, each once, in their order; it does not run when there are none. All or none commit. Waits for other workers without
/// bound; two batches cannot deadlock on their ids.
///
/// Returns the new ids. On return all messages are done and may be acknowledged. When the reply to COMMIT was lost, the batch
/// runs again: ids that had been committed are then no longer new, and are not returned.
template <typename F>
std::vector<std::string> consume_many(client &db, const std::string &consumer, const std::vector<std::string> &message_ids,
                                      const consume_options &options, F &&work) {
    static_assert(std::is_invocable_v<F &, transaction &, const std::vector<std::string> &>,
                  "work is called as work(idem::transaction &, const std::vector<std::string> &new_ids)");
    return detail::run_flow(
        db, options.flow,
        [&](detail::flow &run) {
            const std::vector<std::string> new_ids =
                detail::new_message_ids(run.begin(detail::inbox_step(consumer, message_ids, options)), consumer, message_ids);
            if (new_ids.empty()) {
                run.cancel();
            } else {
                run.earlier_attempts_rolled_back(); // if one had committed, no id would be new
                work(run.tx(), new_ids);
                run.commit();
            }
            return new_ids;
        },
        true);
}
template <typename F>
std::vector<std::string> consume_many(client &db, const std::string &consumer, const std::vector<std::string> &message_ids,
                                      F &&work) {
    return consume_many(db, consumer, message_ids, consume_options{}, std::forward<F>(work));
}

} // namespace idem
