// Signals to the work that its lease or lock is lost. The interface of C++20's <stop_token>, in C++17.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <idem/standard.hpp>

namespace idem {

class stop_token;

namespace detail {

class stop_state;

/// A registered callback: an entry of the list in stop_state.
class stop_link {
  public:
    explicit stop_link(std::function<void()> call) : call_(std::move(call)) {}
    stop_link(const stop_link &) = delete;
    stop_link &operator=(const stop_link &) = delete;

  private:
    friend class stop_state;

    std::function<void()> call_;
    stop_link *next_ = nullptr;
    bool listed_ = false;
};

/// Thread-safe.
class stop_state {
  public:
    bool requested() const noexcept { return requested_.load(std::memory_order_acquire); }
    /// The first call runs the callbacks, one after the other, in this thread. Later calls do nothing.
    void request() noexcept;
    /// Registers the callback; runs it at once when stop was already requested.
    void add(stop_link &link) noexcept;
    /// On return the callback neither runs nor will run, unless the callback itself made the call.
    void remove(stop_link &link) noexcept;
    bool wait_for(std::chrono::milliseconds timeout) noexcept;

  private:
    static void run(stop_link &link) noexcept;

    std::atomic<bool> requested_{false};
    std::mutex lock_; // guards the rest
    std::condition_variable changed_;
    stop_link *first_ = nullptr;
    stop_link *running_ = nullptr;
    std::thread::id runner_;
};

stop_token token_of(std::shared_ptr<stop_state> state) noexcept;

} // namespace detail

/// Tells whether to stop. Thread-safe, cheap to copy and to query; it may outlive its lease, lock and client. A
/// default-constructed token never stops.
class stop_token {
  public:
    stop_token() = default;

    bool stop_possible() const noexcept { return state_ != nullptr; }
    bool stop_requested() const noexcept { return state_ && state_->requested(); }
    /// Sleeps until stop is requested (true) or `timeout` has passed (false): a pause that ends when the lease is lost.
    bool wait_for(std::chrono::milliseconds timeout) const;

  private:
    friend class stop_callback;
    friend stop_token detail::token_of(std::shared_ptr<detail::stop_state> state) noexcept;

    explicit stop_token(std::shared_ptr<detail::stop_state> state) noexcept : state_(std::move(state)) {}

    std::shared_ptr<detail::stop_state> state_;
};

namespace detail {

inline stop_token token_of(std::shared_ptr<stop_state> state) noexcept { return stop_token(std::move(state)); }

} // namespace detail

/// Calls a function when stop is requested, or at once when it was requested before. The calling thread is the client's
/// signalling thread, which all leases and locks of that client share, or the thread that detects the loss first in a call of
/// lost(), throw_if_lost(), step(), complete() or assert_fence(). So do not make those calls while holding a mutex that
/// the function locks, and keep the function short (set a flag, cancel a request, signal a process). Its exceptions are
/// dropped.
///
/// The destructor waits for a call that runs in another thread. A callback may destroy itself.
class stop_callback {
  public:
    stop_callback(const stop_token &token, std::function<void()> call) : state_(token.state_), link_(std::move(call)) {
        if (state_)
            state_->add(link_);
    }
    ~stop_callback() {
        if (state_)
            state_->remove(link_);
    }
    stop_callback(const stop_callback &) = delete;
    stop_callback &operator=(const stop_callback &) = delete;

  private:
    std::shared_ptr<detail::stop_state> state_;
    detail::stop_link link_;
};

} // namespace idem
