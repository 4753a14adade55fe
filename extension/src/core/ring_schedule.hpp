// What is due in a ring: which window is to be opened, filled into the filter, taken off the map or emptied.
//
//     empty -> open -> sealed -> expired -> empty
//
// One window is open and takes new keys. Sealed windows are searched. An expired window is searched no more: all of its keys
// have expired; it waits to be emptied.
#pragma once

#include "core/key_state.hpp"

namespace idem::core {

enum class WindowState : char { empty, open, sealed, expired };

// Whether a claim may find a key there.
inline bool is_searched(WindowState state) { return state == WindowState::open || state == WindowState::sealed; }

struct Window {
    WindowState state;
    std::int64_t generation; // counts the openings of the ring's windows; 0: never opened
    Micros opened_at;
    Micros closed_at;
    Micros until; // sealed: the end of its last key's retention; 0: not known yet
    bool has_until() const { return until != 0; }
};

// For how long a window is open. The keys of a window live for the retention after it is closed, and one window more than that
// is left for the time until it is emptied. REQUIRES: windows > 2.
// NOLINTNEXTLINE(clang-analyzer-core.DivideZero)
inline Micros period_of(Micros retention, int windows) { return retention / (windows - 2); }

enum class RingStep { none, open, fill, expire, empty };

struct RingDue {
    RingStep step;
    int window; // of RingStep::open: the window that is to be opened
};

// Facts that the map does not have.
struct WindowUse {
    bool has_keys;   // of the open window
    bool is_covered; // of a sealed one: by the filter
};

// The first step that is due. `open_was_tried`, `skipped` (bits of windows): the steps that were attempted and failed.
RingDue due_step(const Window *windows, const WindowUse *uses, int count, Micros retention, Micros now, bool open_was_tried,
                 std::uint32_t skipped);

} // namespace idem::core
