#include "core/ring_schedule.hpp"

namespace idem::core {

namespace {

bool is_skipped(std::uint32_t skipped, int window) { return (skipped >> window & 1) != 0; }

// The first window in the state, or -1.
int first_in(WindowState state, const Window *windows, int count, std::uint32_t skipped) {
    for (int i = 0; i < count; i++)
        if (windows[i].state == state && !is_skipped(skipped, i))
            return i;
    return -1;
}

bool is_open_for_long_enough(const Window &open, Micros period, Micros now) {
    // A clock that was set back does not keep a window open.
    return now - open.opened_at >= period || now < open.opened_at;
}

} // namespace

RingDue due_step(const Window *windows, const WindowUse *uses, int count, Micros retention, Micros now, bool open_was_tried,
                 std::uint32_t skipped) {
    if (const int window = first_in(WindowState::expired, windows, count, skipped); window >= 0)
        return {RingStep::empty, window};
    for (int i = 0; i < count; i++)
        if (windows[i].state == WindowState::sealed && windows[i].has_until() && windows[i].until <= now &&
            !is_skipped(skipped, i))
            return {RingStep::expire, i};
    const int open = first_in(WindowState::open, windows, count, 0);
    const int empty = first_in(WindowState::empty, windows, count, 0);
    if (!open_was_tried && open >= 0 && empty >= 0 && uses[open].has_keys &&
        is_open_for_long_enough(windows[open], period_of(retention, count), now))
        return {RingStep::open, empty};
    for (int i = 0; i < count; i++)
        if (windows[i].state == WindowState::sealed && (!windows[i].has_until() || !uses[i].is_covered) &&
            !is_skipped(skipped, i))
            return {RingStep::fill, i};
    return {RingStep::none, -1};
}

} // namespace idem::core
