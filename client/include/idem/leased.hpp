// Work outside the database, under a key that is held by a lease.
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
    /// What becomes of the key when the work throws.
    enum class on_exception {
        release, ///< the next caller runs the work again, at once
        keep     ///< the lease runs out first; then others take over, or an operator decides, by the policy of the scope
    };
    on_exception exception = on_exception::release;
    /// Of the statements before and after the work, which runs once per call. Nothing: the client's. However few attempts it
    /// allows, completion is tried for as long as the lease lives, as the work is done; a deadline ends that too.
    std::optional<retry_policy> retry;
};

namespace detail {
class lease_state;
class leased_flow;
} // namespace detail

/// The claim that the work runs under. While the work runs the lease is renewed in the background, every third of its length.
///
/// A lease is lost when the server says that somebody else has it, or when its length has passed since the last renewal that
/// succeeded was sent: the process or the network slept, and by now others may be doing the work.
///
/// Thread-safe, but for complete(): by one thread at a time. Good while the callable runs that was given it.
class lease {
  public:
    const std::string &key() const noexcept;
    const std::string &scope() const noexcept;
    /// To be handed on with each write to a resource that can refuse a smaller one.
    std::int64_t fence() const noexcept;
    /// 1 + how often the key had been taken over or released before.
    int attempt() const noexcept;
    /// How far the last attempt had come; nothing: it had not said.
    const std::optional<std::string> &recovery_point() const noexcept;

    /// Notes how far the work has come, for the attempt that follows if this one fails. Throws lease_lost.
    void checkpoint(const std::string &recovery_point);
    /// The same together with what the caller's transaction writes. It keeps renewals waiting until it ends: let it be shorter
    /// than the lease.
    void checkpoint(const target &in, const std::string &recovery_point);

    /// Stop is requested when the lease is lost.
    stop_token stop() const noexcept;
    bool lost() const noexcept;
    void throw_if_lost() const;
    /// How long it is certainly held without another renewal; zero when it is lost.
    duration time_left() const noexcept;

    /// Stores the response in the caller's transaction: what that wrote and the completion commit together, or not at all.
    /// What the work returns is ignored then. It may be called again when that transaction is run again. Throws lease_lost.
    ///
    ///     idem::transaction / pqxx::work tx …;  tx.exec(…);  lease.complete({db, tx}, {201, body});  tx.commit();
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

    /// Claims the key. An answer: there is nothing to do. Nothing: held() is held.
    std::optional<answer> begin();
    lease &held() noexcept { return held_; }
    answer complete(const response &outcome);
    /// Lets the key go, or not, and rethrows; an answer when the work has been completed although it looks otherwise.
    answer failed(const std::exception_ptr &problem);

  private:
    std::unique_ptr<lease_state> state_;
    lease held_;
};

} // namespace detail

/// Claims the key with a lease, commits that, runs `work(lease &)` outside of any transaction, and stores the response it
/// returns; for work that a rollback cannot undo: a payment gateway, a mail, a build. Duplicates are answered with the stored
/// response.
///
/// The work runs at most once at a time and once per call. It may be run again by a later call, when this one threw, crashed
/// or lost its lease; recovery points tell the next attempt how far it had come, and fences let other systems refuse who is
/// late. `work` returns a response, JSON text, something that idem/nlohmann.hpp makes one of, or nothing.
///
/// request::lease is how long the holder may be silent before others may take over (default: the scope's, at the price of one
/// more round trip); it need not be longer than the work, but longer than any pause of process and network. Three statements:
/// claim, completion, and the renewals, on one connection that all leases and locks of a client share. No connection is held
/// while the work runs.
///
/// Throws in_flight (with retry_after) and in_doubt, mismatch, bad_input, denied, read_only; connection_lost when the claim
/// did not succeed; what `work` throws, after the key was released (see leased_options); lease_lost when the lease was lost
/// before the response was stored, so that nothing of it is; rolled_back when lease::complete was called in a transaction that
/// did not commit; outcome_unknown when the server could not be reached to say whether the response is stored.
///
///     idem::answer paid = idem::leased(db, idem::request{"pay-7f3a"}.lease(std::chrono::seconds{10}), [&](idem::lease &lease)
///     {
///         return idem::response{201, gateway.charge(lease.key(), amount)};
///     });
template <typename F> answer leased(client &db, const request &about, F &&work, const leased_options &options = {}) {
    detail::leased_flow flow{db, about, options};
    if (std::optional<answer> known = flow.begin())
        return *std::move(known);
    try {
        return flow.complete(detail::respond(work, flow.held()));
    } catch (...) {
        return flow.failed(std::current_exception());
    }
}

} // namespace idem
