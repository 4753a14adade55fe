// Work outside the database, under a leased key.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <idem/client.hpp>
#include <idem/once.hpp>
#include <idem/request.hpp>
#include <idem/response.hpp>
#include <idem/stop_token.hpp>
#include <idem/target.hpp>

namespace idem {

struct leased_options {
    /// What happens to the key when the work throws.
    enum class on_exception {
        release, ///< the next caller runs the work again, immediately
        keep     ///< the lease runs out first; then others take over or an operator decides, by the policy of the scope
    };
    on_exception exception = on_exception::release;
    /// For the statements before and after the work; the work itself runs once per call. Nothing: the client's policy. After
    /// the work, completion is retried for one length of the lease, however few attempts the policy allows; its deadline, if
    /// set, counts instead.
    std::optional<retry_policy> retry;
};

namespace detail {
class lease_state;
class leased_flow;
} // namespace detail

/// The lease under which the work runs. It is renewed in the background, after each third of its length.
///
/// A lease is lost when the server says so, or when its length has passed since the last successful renewal was sent: the
/// process or the network slept, and others may be doing the work by now.
///
/// Thread-safe, except for complete(): one thread at a time. Valid until the callable that received it returns.
class lease {
  public:
    const std::string &key() const noexcept;
    const std::string &scope() const noexcept;
    /// Send it with each write to a resource that can reject a smaller fence.
    std::int64_t fence() const noexcept;
    /// 1 + how often the key had been taken over or released before.
    int attempt() const noexcept;
    /// The last checkpoint of the attempts before; nothing: none.
    const std::optional<std::string> &recovery_point() const noexcept;

    /// Stores how far the work has come, for the next attempt if this one fails. Throws lease_lost.
    void checkpoint(const std::string &recovery_point);
    /// The same in the caller's transaction, with which it commits. Renewals wait until that transaction ends: it must be
    /// shorter than the lease.
    void checkpoint(const target &in, const std::string &recovery_point);

    /// Stop is requested when the lease is lost.
    stop_token stop() const noexcept;
    bool lost() const noexcept;
    void throw_if_lost() const;
    /// How long the lease is certainly held without another renewal; zero when it is lost.
    duration time_left() const noexcept;

    /// Stores the response in the caller's transaction: that transaction's writes and the completion commit together, or not at
    /// all. The value that the work returns is then ignored. May be called again when the transaction is retried. Throws
    /// lease_lost.
    ///
    ///     idem::transact(db, [&](idem::transaction &tx) { tx.exec(…); lease.complete(tx, {201, body}); });
    ///     pqxx::work tx …;  tx.exec(…);  lease.complete({db, tx}, {201, body});  tx.commit();
    void complete(const target &in, const response &outcome);

  private:
    friend class detail::leased_flow;
    explicit lease(detail::lease_state &state) noexcept : state_(&state) {}

    detail::lease_state *state_;
};

namespace detail {

/// The part of `leased` that does not depend on the callable.
class leased_flow {
  public:
    leased_flow(client &db, const request &about, const leased_options &options);
    ~leased_flow();
    leased_flow(const leased_flow &) = delete;
    leased_flow &operator=(const leased_flow &) = delete;

    /// Claims the key. Returns the stored answer if the work was done before; else held() is the lease.
    std::optional<answer> begin();
    lease &held() noexcept { return held_; }
    answer complete(const response &outcome);
    /// Releases the key if it is to be released, and rethrows. Returns an answer when the work turns out to be completed.
    answer failed(const std::exception_ptr &problem);

  private:
    std::unique_ptr<lease_state> state_;
    lease held_;
};

} // namespace detail

/// Claims the key with a lease, commits the claim, runs `work(lease &)` outside any transaction, and stores the response that
/// `work` returns. For work that a rollback cannot undo: a payment gateway, a mail, a build. A duplicate returns the stored
/// response.
///
/// At any time at most one caller holds the lease, and `work` runs once per call. A later call may run the work again when this
/// one threw, crashed or lost its lease: recovery points tell it how far the last attempt had come, and fences let other
/// systems reject a late writer. `work` returns a response, JSON text, a type that idem/nlohmann.hpp converts, or nothing.
///
/// request::lease is how long the holder may be silent before others may take over (default: the scope's lease, which costs one
/// more round trip). It may be shorter than the work, but must be longer than any pause of the process and the network. The
/// statements are the claim, the completion and the renewals; all leases and locks of a client share one connection for
/// renewals. The work itself holds no connection.
///
/// Throws in_flight (with retry_after), in_doubt, mismatch, bad_input, denied, read_only; connection_lost when the claim did
/// not succeed; the exceptions of `work`, after the key was released (see leased_options); lease_lost when the lease was lost
/// before the response was stored; rolled_back when lease::complete was called in a transaction that did not commit;
/// outcome_unknown when it could not be determined whether the response is stored.
///
///     const auto about = idem::request{"pay-7f3a"}.lease(std::chrono::seconds{10});
///     idem::answer paid = idem::leased(db, about, [&](idem::lease &lease) {
///         return idem::response{201, gateway.charge(lease.key(), amount)};
///     });
template <typename F> answer leased(client &db, const request &about, const leased_options &options, F &&work) {
    detail::leased_flow flow{db, about, options};
    if (std::optional<answer> known = flow.begin())
        return *std::move(known);
    try {
        return flow.complete(detail::respond(work, flow.held()));
    } catch (...) {
        return flow.failed(std::current_exception());
    }
}
template <typename F> answer leased(client &db, const request &about, F &&work) {
    return leased(db, about, leased_options{}, std::forward<F>(work));
}

} // namespace idem
