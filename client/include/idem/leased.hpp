// Work outside the database, under a leased key.
#pragma once

#include <cstdint>
#include <exception>
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

/// The fate of a step that an earlier attempt intended, according to a system that knows it: the gateway that the step calls.
class step_fate {
  public:
    /// It happened. `output` is JSON text, but not null.
    static step_fate done(std::string output = "{}") { return step_fate(kind::done, std::move(output)); }
    /// It did not happen, and no longer can.
    static step_fate not_done() { return step_fate(kind::not_done, {}); }
    /// It cannot be determined now.
    static step_fate unknown() { return step_fate(kind::unknown, {}); }

    bool is_done() const noexcept { return kind_ == kind::done; }
    bool is_unknown() const noexcept { return kind_ == kind::unknown; }
    const std::string &output() const noexcept { return output_; }

  private:
    enum class kind { done, not_done, unknown };
    step_fate(kind which, std::string output) : kind_(which), output_(std::move(output)) {}

    kind kind_;
    std::string output_;
};

struct leased_options {
    /// What happens to the key when the work throws.
    enum class on_exception {
        release, ///< the next caller runs the work again, immediately
        keep     ///< the lease runs out first; then others take over or an operator decides, by the policy of the scope
    };
    on_exception exception = on_exception::release;
    /// For the statements before and after the work; the work itself runs once per call. Nothing: the client's policy. After
    /// the work, completion is retried for one length of the lease, however few attempts the policy allows. If the policy has a
    /// deadline, that applies instead.
    std::optional<retry_policy> retry;
};

namespace detail {

class lease_state;
class leased_flow;

/// Calls a function when its scope is left, unless an exception leaves it.
template <typename F> class on_return {
  public:
    explicit on_return(F then) : then_(std::move(then)), exceptions_(std::uncaught_exceptions()) {}
    ~on_return() {
        if (std::uncaught_exceptions() == exceptions_)
            then_();
    }
    on_return(const on_return &) = delete;
    on_return &operator=(const on_return &) = delete;

  private:
    F then_;
    const int exceptions_;
};

} // namespace detail

/// The lease under which the work runs. It is renewed in the background, after each third of its length.
///
/// A lease is lost when the server says so, or when its length has passed since the last successful renewal was sent: then the
/// process or the network paused, and others may be doing the work. A step is not taken any more. A response is stored if no
/// other caller has taken over.
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
    /// The steps of earlier attempts, as a JSON object: {"charge": {"id": 7}, "mail": null}. Null: the step was intended, and
    /// its end was not stored. Nothing: there are no steps.
    const std::optional<std::string> &steps() const noexcept;

    /// Takes a step of the work and returns its output, JSON text as jsonb spells it. A step that this or an earlier attempt
    /// has done is not taken again: its stored output is returned. Otherwise `act()` runs between two statements: the first
    /// stores that the step is intended, the second stores its output. `act` returns what `work` may return, or nothing, which
    /// is stored as {}.
    ///
    /// When an earlier attempt intended the step and its output is not stored, it may have happened. `reconcile()`, if given,
    /// then runs first, and returns a step_fate. `act` runs only for not_done. For unknown, step() throws in_doubt, and the key
    /// is kept: after the end of the lease others reconcile again, or an operator decides. Without `reconcile`, `act` runs
    /// again, so it must be safe to repeat, for example through an idempotency key of the gateway.
    ///
    /// Throws lease_lost; in_doubt; and what `act` and `reconcile` throw, with the step still intended. When `act` has returned
    /// and its output cannot be stored, because it is not JSON (bad_input) or the steps are over the scope's limit for
    /// responses (54000), the message says so, and the key is kept whatever the options say.
    ///
    ///     const std::string charge = lease.step(
    ///         "charge", [&] { return gateway.charge(lease.key(), amount); },
    ///         [&] { return gateway.has(lease.key()) ? idem::step_fate::done(gateway.get(lease.key())) :
    ///         idem::step_fate::not_done(); });
    template <typename Act> std::string step(const std::string &name, Act &&act);
    template <typename Act, typename Reconcile> std::string step(const std::string &name, Act &&act, Reconcile &&reconcile);
    /// The same for a step that writes to this database, in the caller's transaction: the step's rows and its output commit
    /// together, so nothing has to be reconciled. Renewals wait until that transaction ends: it must be shorter than the lease.
    template <typename Act> std::string step(const target &in, const std::string &name, Act &&act);

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
    /// What is known before a step is taken; `output` is set if the step is done.
    struct step_before {
        bool intended_earlier;
        std::optional<std::string> output;
    };

    step_before intend(const std::string &name);
    std::optional<std::string> find_output(const target &in, const std::string &name);
    std::string store_output(const std::string &name, const std::string &output);
    std::string store_output(const target &in, const std::string &name, const std::string &output);
    [[noreturn]] void throw_in_doubt(const std::string &name);
    template <typename Act> std::string output_of(Act &act);
    /// From now on the key is kept, until the step's output is stored.
    void step_happened() noexcept;

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
    /// When the work has returned, its key is kept, whatever becomes of its response.
    void work_returned() noexcept;
    answer complete(const response &outcome);
    /// Releases the key if it is to be released, and rethrows. Returns an answer when the work turns out to be completed.
    answer failed(const std::exception_ptr &problem);

  private:
    std::unique_ptr<lease_state> state_;
    lease held_;
};

} // namespace detail

template <typename Act> std::string lease::output_of(Act &act) {
    static_assert(std::is_invocable_v<Act &>, "a step is called without arguments, as act()");
    const auto counted = [&]() -> decltype(auto) {
        const detail::on_return happened([this]() noexcept { step_happened(); });
        return act();
    };
    return detail::respond(counted).json.value_or("{}");
}

template <typename Act> std::string lease::step(const std::string &name, Act &&act) {
    return step(name, std::forward<Act>(act), [] { return step_fate::not_done(); });
}

template <typename Act, typename Reconcile> std::string lease::step(const std::string &name, Act &&act, Reconcile &&reconcile) {
    static_assert(std::is_invocable_r_v<step_fate, Reconcile &>,
                  "reconcile is called without arguments, and returns an idem::step_fate");
    const step_before before = intend(name);
    if (before.output)
        return *before.output;
    if (before.intended_earlier) {
        const step_fate fate = reconcile();
        if (fate.is_unknown())
            throw_in_doubt(name);
        if (fate.is_done()) {
            step_happened();
            return store_output(name, fate.output());
        }
    }
    return store_output(name, output_of(act));
}

template <typename Act> std::string lease::step(const target &in, const std::string &name, Act &&act) {
    if (std::optional<std::string> known = find_output(in, name))
        return *std::move(known);
    return store_output(in, name, output_of(act));
}

/// Claims the key with a lease, commits the claim, runs `work(lease &)` outside any transaction, and stores the response that
/// `work` returns. For work that a rollback cannot undo: a payment gateway, a mail, a build. A duplicate returns the stored
/// response.
///
/// At any time at most one caller holds the lease, and `work` runs once per call. A later call may run the work again when this
/// one threw, crashed or lost its lease: steps (lease::step) are not repeated, and fences let other systems reject a
/// late writer. `work` returns a response, JSON text, a type that idem/nlohmann.hpp converts, or nothing.
///
/// request::lease is how long the holder may be silent before others may take over (default: the scope's lease, which costs one
/// more round trip). It may be shorter than the work, but must be longer than any pause of the process and the network. The
/// statements are the claim, the completion and the renewals; all leases and locks of a client share one connection for
/// renewals. The work itself holds no connection.
///
/// Throws in_flight (with retry_after), in_doubt, mismatch, bad_input, denied, read_only; connection_lost when the claim did
/// not succeed; the exceptions of `work`, after the key was released (see leased_options); those of the conversion of its
/// result, with the key kept, as the work is done; lease_lost when another caller took over before the response was stored;
/// rolled_back when lease::complete was called in a transaction that did not commit; outcome_unknown when it could not be
/// determined whether the response is stored.
///
///     const auto about = idem::request{"pay-7f3a"}.lease(std::chrono::seconds{10});
///     idem::answer paid = idem::leased(db, about, [&](idem::lease &lease) {
///         return idem::response{201, gateway.charge(lease.key(), amount)};
///     });
template <typename F> answer leased(client &db, const request &about, const leased_options &options, F &&work) {
    static_assert(std::is_invocable_v<F &, lease &>, "work is called as work(idem::lease &)");
    detail::leased_flow flow{db, about, options};
    if (std::optional<answer> known = flow.begin())
        return *std::move(known);
    const auto act = [&](lease &held) -> decltype(auto) {
        const detail::on_return returned([&flow]() noexcept { flow.work_returned(); });
        return work(held);
    };
    try {
        return flow.complete(detail::respond(act, flow.held()));
    } catch (...) {
        return flow.failed(std::current_exception());
    }
}
template <typename F> answer leased(client &db, const request &about, F &&work) {
    return leased(db, about, leased_options{}, std::forward<F>(work));
}

} // namespace idem
