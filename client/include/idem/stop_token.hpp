// How a flow tells the work that it no longer holds what it works under. The shape of C++20's <stop_token>, in C++17.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace idem {

namespace detail {

class stop_state;

/// One registered callback; a link of the list that stop_state keeps.
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
    /// Only the first call does anything: it runs the callbacks, one after the other, in this thread.
    void request() noexcept;
    /// Lists the callback; one that comes too late is run at once.
    void add(stop_link &link) noexcept;
    /// When it returns the callback does not run and will not; unless it is called by the callback itself.
    void remove(stop_link &link) noexcept;
    bool wait_for(std::chrono::milliseconds longest) noexcept;

  private:
    static void run(stop_link &link) noexcept;

    std::atomic<bool> requested_{false};
    std::mutex lock_; // guards the rest
    std::condition_variable changed_;
    stop_link *first_ = nullptr;
    stop_link *running_ = nullptr;
    std::thread::id runner_;
};

} // namespace detail

/// Tells whether to stop. Cheap to copy and to ask, thread-safe, and good for longer than what handed it out. One made from
/// nothing never stops.
class stop_token {
  public:
    stop_token() = default;
    explicit stop_token(std::shared_ptr<detail::stop_state> state) noexcept : state_(std::move(state)) {}

    bool stop_possible() const noexcept { return state_ != nullptr; }
    bool stop_requested() const noexcept { return state_ && state_->requested(); }
    /// Sleeps until stop is requested (true) or this much time has passed (false): a pause that does not outlast the lease.
    bool wait_for(std::chrono::milliseconds longest) const;

  private:
    friend class stop_callback;

    std::shared_ptr<detail::stop_state> state_;
};

/// Calls a function when stop is requested, or at once when it has been. The call comes from a thread of the client's, which
/// signals all leases and locks of that client, or from whoever finds the loss out first: lost(), throw_if_lost(), checkpoint(),
/// complete() and assert_fence() run it in their own thread. So hold no mutex over those that it takes, and keep it short (set a flag, cancel a request, signal a process). What it throws
/// is dropped.
///
/// The destructor waits for a call that is under way in another thread; a callback may destroy itself.
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
