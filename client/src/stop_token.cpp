#include <idem/stop_token.hpp>

#include "bounded.hpp"

namespace idem {

namespace detail {

void stop_state::run(stop_link &link) noexcept {
    // The callback may destroy its link: the function must live on until it returns.
    const std::function<void()> call = std::move(link.call_);
    try {
        call();
    } catch (...) {
        // Dropped: the remaining callbacks must run too.
    }
}

void stop_state::request() noexcept {
    std::unique_lock lock(lock_);
    if (requested())
        return;
    requested_.store(true, std::memory_order_release);
    runner_ = std::this_thread::get_id();
    changed_.notify_all();
    while (first_ != nullptr) {
        stop_link *const link = first_;
        first_ = link->next_;
        link->listed_ = false;
        running_ = link;
        lock.unlock();
        run(*link);
        lock.lock();
        running_ = nullptr;
        changed_.notify_all();
    }
}

void stop_state::add(stop_link &link) noexcept {
    {
        const std::lock_guard lock(lock_);
        if (!requested()) {
            link.next_ = first_;
            first_ = &link;
            link.listed_ = true;
            return;
        }
    }
    run(link);
}

void stop_state::remove(stop_link &link) noexcept {
    std::unique_lock lock(lock_);
    if (link.listed_) {
        stop_link **at = &first_;
        while (*at != &link)
            at = &(*at)->next_;
        *at = link.next_;
    } else if (runner_ != std::this_thread::get_id()) {
        changed_.wait(lock, [&] { return running_ != &link; });
    }
}

bool stop_state::wait_for(std::chrono::milliseconds timeout) noexcept {
    std::unique_lock lock(lock_);
    return changed_.wait_for(lock, bounded(timeout), [&] { return requested(); });
}

} // namespace detail

bool stop_token::wait_for(std::chrono::milliseconds timeout) const {
    if (state_)
        return state_->wait_for(timeout);
    std::this_thread::sleep_for(detail::bounded(timeout));
    return false;
}

} // namespace idem
