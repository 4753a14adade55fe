#include "core/ring_schedule.hpp"

#include <gtest/gtest.h>

#include <array>

namespace idem::core {
namespace {

constexpr int kWindows = 4;
constexpr Micros kHour = 3'600'000'000;
constexpr Micros kRetention = 2 * kHour; // so a window is open for an hour
constexpr Micros kNow = 800'000'000'000'000;

// A ring: window 0 is open since `open_for`, the others are empty.
struct Ring {
    std::array<Window, kWindows> windows{};
    std::array<WindowUse, kWindows> uses{};

    explicit Ring(Micros open_for = 0) {
        windows[0] = {WindowState::open, 1, kNow - open_for, 0, 0};
        uses[0].has_keys = true;
    }
    void seal(int window, Micros until, bool is_covered) {
        windows.at(window) = {WindowState::sealed, 1, kNow - kHour, kNow, until};
        uses.at(window).is_covered = is_covered;
    }
    RingDue due(bool open_was_tried = false, std::uint32_t skipped = 0) const {
        return due_step(windows.data(), uses.data(), kWindows, kRetention, kNow, open_was_tried, skipped);
    }
};

void expect(const RingDue &due, RingStep step, int window) {
    EXPECT_EQ(static_cast<int>(due.step), static_cast<int>(step));
    EXPECT_EQ(due.window, window);
}

TEST(RingSchedule, AWindowIsOpenForItsShareOfTheRetention) {
    EXPECT_EQ(period_of(kRetention, kWindows), kHour);
    EXPECT_EQ(period_of(kRetention, 3), kRetention);
    expect(Ring(kHour - 1).due(), RingStep::none, -1);
    expect(Ring(kHour).due(), RingStep::open, 1);
}

TEST(RingSchedule, AWindowWithoutKeysStaysOpen) {
    Ring ring(10 * kHour);
    ring.uses[0].has_keys = false;
    expect(ring.due(), RingStep::none, -1);
}

TEST(RingSchedule, AClockThatWasSetBackKeepsNoWindowOpen) { expect(Ring(-kHour).due(), RingStep::open, 1); }

TEST(RingSchedule, WithoutAnEmptyWindowNoneIsOpened) {
    Ring ring(10 * kHour);
    for (int window = 1; window < kWindows; window++)
        ring.seal(window, kNow + 1, true);
    expect(ring.due(), RingStep::none, -1);
}

TEST(RingSchedule, ASealedWindowIsFilledIntoTheFilter) {
    Ring ring;
    ring.seal(2, 0, false);
    expect(ring.due(), RingStep::fill, 2);
    ring.seal(2, 0, true); // the end of its last key is not known
    expect(ring.due(), RingStep::fill, 2);
    ring.seal(2, kNow + 1, false); // the filter has lost it
    expect(ring.due(), RingStep::fill, 2);
    ring.seal(2, kNow + 1, true);
    expect(ring.due(), RingStep::none, -1);
}

TEST(RingSchedule, AWindowExpiresWithItsLastKeyAndNoEarlier) {
    Ring ring;
    ring.seal(3, kNow + 1, true);
    expect(ring.due(), RingStep::none, -1);
    ring.seal(3, kNow, false);
    expect(ring.due(), RingStep::expire, 3);
}

TEST(RingSchedule, AnExpiredWindowIsEmptiedFirst) {
    Ring ring(10 * kHour);
    ring.windows[2].state = WindowState::expired;
    ring.seal(3, kNow - 1, false);
    expect(ring.due(), RingStep::empty, 2);
}

TEST(RingSchedule, WhatWasTriedInVainIsNotTriedAgain) {
    Ring ring(10 * kHour);
    ring.windows[2].state = WindowState::expired;
    ring.seal(3, kNow - 1, false);
    expect(ring.due(false, 1U << 2), RingStep::expire, 3);
    expect(ring.due(false, 1U << 2 | 1U << 3), RingStep::open, 1);
    expect(ring.due(true, 1U << 2 | 1U << 3), RingStep::none, -1);
}

TEST(RingSchedule, OnlyOpenAndSealedWindowsAreLookedIn) {
    EXPECT_TRUE(is_searched(WindowState::open));
    EXPECT_TRUE(is_searched(WindowState::sealed));
    EXPECT_FALSE(is_searched(WindowState::expired));
    EXPECT_FALSE(is_searched(WindowState::empty));
}

} // namespace
} // namespace idem::core
