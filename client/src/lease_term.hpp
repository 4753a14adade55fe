// A lease as its holder sees it: without clock, network and threads. tests/vectors/lease.json has its behaviour.
#pragma once

#include <optional>

#include "lease_clock.hpp"

namespace idem::detail {

/// The times are the caller's, of one clock. A lease counts from when its claim, or the last renewal that was granted, was
/// sent: after its length another caller may hold it, whatever the server answers later. Not thread-safe.
class lease_term {
  public:
    using time_point = lease_clock::time_point;
    using span = lease_clock::duration;

    /// What the holder is to do next.
    enum class request {
        nothing,
        renew,        ///< send a renewal
        work,         ///< begin the work
        lost_expired, ///< tell the work that the lease is lost
        lost_stale,   ///< the same, and the server has said so: nothing is completed or released
        complete,
        release
    };

    explicit lease_term(span length) noexcept : length_(length) {}

    /// The claim is about to be sent.
    void claim(time_point at) noexcept;
    /// The claim was granted. An answer that comes late is renewed before the work begins.
    request acquired(time_point at) noexcept;
    /// The time of due() has come.
    request tick(time_point at) noexcept;
    /// The part of tick() that sends nothing.
    request watch(time_point at) noexcept;
    /// A renewal is about to be sent. tick() and acquired() say so too, when they ask for it.
    void send(time_point at) noexcept;
    /// The renewal was granted, for this length from now on.
    request renewed(time_point at, std::optional<span> length = {}) noexcept;
    /// The fence is stale.
    request stale() noexcept;
    /// The renewal failed, and is to be sent again after this pause; by default a tenth of the length, at most a second.
    void failed(time_point at, std::optional<span> pause = {}) noexcept;
    /// The work returned. An expired lease is completed too: the fence decides in the database.
    request returned() noexcept { return end(request::complete); }
    /// The work threw.
    request threw() noexcept { return end(request::release); }

    /// When tick() is to be called; nothing: never.
    std::optional<time_point> due() const noexcept;
    /// When the next renewal is to be sent; nothing: one is under way, or none is needed.
    std::optional<time_point> next_renewal() const noexcept;
    /// The lease is held until then, and perhaps longer.
    time_point until() const noexcept { return until_; }
    span length() const noexcept { return length_; }
    bool is_lost() const noexcept { return now_ == state::lost; }
    bool is_stale() const noexcept { return stale_; }

  private:
    enum class state { claimed, waiting /* for the first renewal */, held, lost, ended };

    void grant() noexcept;
    bool lives() const noexcept { return now_ == state::waiting || now_ == state::held; }
    request lose(request why) noexcept;
    request end(request how) noexcept;

    state now_ = state::claimed;
    bool stale_ = false, renewing_ = false;
    span length_;
    time_point sent_, until_, next_; // sent_: of the claim or the renewal that is under way
};

} // namespace idem::detail
