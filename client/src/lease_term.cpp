#include "lease_term.hpp"

#include <algorithm>

namespace idem::detail {

namespace {

constexpr lease_term::span kMinPause = std::chrono::milliseconds(10), kMaxPause = std::chrono::seconds(1);

} // namespace

void lease_term::claim(time_point at) noexcept { sent_ = at; }

void lease_term::grant() noexcept {
    renewing_ = false;
    until_ = sent_ + length_;
    next_ = sent_ + std::max(length_ / 3, kMinPause);
}

lease_term::request lease_term::acquired(time_point at) noexcept {
    now_ = state::waiting;
    grant();
    if (const request first = tick(at); first != request::nothing)
        return first;
    now_ = state::held;
    return request::work;
}

lease_term::request lease_term::tick(time_point at) noexcept {
    if (const request loss = watch(at); loss != request::nothing)
        return loss;
    if (!lives() || renewing_ || at < next_)
        return request::nothing;
    send(at);
    return request::renew;
}

lease_term::request lease_term::watch(time_point at) noexcept {
    return lives() && at >= until_ ? lose(request::lost_expired) : request::nothing;
}

void lease_term::send(time_point at) noexcept {
    sent_ = at;
    renewing_ = true;
}

lease_term::request lease_term::renewed(time_point at, std::optional<span> length) noexcept {
    if (!lives())
        return request::nothing;
    length_ = length.value_or(length_);
    grant();
    if (now_ == state::held)
        return request::nothing;
    if (const request loss = watch(at); loss != request::nothing)
        return loss;
    now_ = state::held;
    return request::work;
}

lease_term::request lease_term::stale() noexcept {
    const bool is_new = lives();
    stale_ = stale_ || is_new || now_ == state::lost;
    return is_new ? lose(request::lost_stale) : request::nothing;
}

void lease_term::failed(time_point at, std::optional<span> pause) noexcept {
    renewing_ = false;
    next_ = at + pause.value_or(std::clamp(length_ / 10, kMinPause, kMaxPause));
}

lease_term::request lease_term::lose(request why) noexcept {
    now_ = state::lost;
    return why;
}

lease_term::request lease_term::end(request how) noexcept {
    now_ = state::ended;
    return stale_ ? request::nothing : how;
}

std::optional<lease_term::time_point> lease_term::due() const noexcept {
    if (!lives())
        return std::nullopt;
    return renewing_ ? until_ : std::min(until_, next_);
}

std::optional<lease_term::time_point> lease_term::next_renewal() const noexcept {
    return lives() && !renewing_ ? std::optional(next_) : std::nullopt;
}

} // namespace idem::detail
