// The graph of a state machine: its states, the initial states of a new row, and the allowed transitions.
//
// A graph is built once, checked as a whole, and never changes. Names are opaque bytes in an encoding that contains ASCII.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace idem::core {

class StateGraph {
  public:
    // Receives a definition member by member, in its order. Nothing is checked before build().
    class Builder {
      public:
        void state(std::string_view name);       // a member of "states", the list of all states
        void states_are_listed();                // there is such a list, possibly empty
        void initial(std::string_view name);     // a member of "initial"
        void transitions(std::string_view from); // `from` has a list of transitions, possibly empty
        void transition(std::string_view from, std::string_view to);

        // Throws std::invalid_argument, which names the culprit: an empty name; a repeated state, initial state or transition;
        // no initial state; an initial state that nothing else mentions; a state missing from the list; an unreachable state.
        StateGraph build() const;

      private:
        struct Edge {
            std::string from, to;
        };
        void check_list() const;
        void check_initial() const;
        void check_edges() const;
        bool mentions(const std::string &name) const;
        std::vector<std::string> all_names() const;

        bool has_state_list_ = false;
        std::vector<std::string> state_list_, initial_, sources_;
        std::vector<Edge> edges_;
    };

    // Questions by name. They return false for a name that is not a state, and neither throw nor allocate.
    bool is_state(std::string_view name) const noexcept;
    bool is_initial(std::string_view name) const noexcept;
    bool can(std::string_view from, std::string_view to) const noexcept;

    // States by number, from 0: breadth first from the initial states, the order that a reader expects.
    std::size_t size() const noexcept { return states_.size(); }
    const std::string &name(std::size_t state) const noexcept { return states_[state].name; }

    // The states that can follow `from`, in the definition's order; empty when `from` is not a state.
    std::vector<std::string> successors(std::string_view from) const;
    // In the definition's order.
    std::vector<std::string> initial_states() const;

    // The graph as text for Graphviz, and for Mermaid. A point leads to the initial states. Terminal states have a double
    // border, or lead to Mermaid's end state.
    std::string dot(std::string_view title) const;
    std::string mermaid() const;

  private:
    struct State {
        std::string name;
        bool initial = false;
        std::vector<std::size_t> next;        // in the definition's order
        std::vector<std::size_t> next_sorted; // the same, for the search
    };

    const State *find(std::string_view name) const noexcept;
    void add_names(std::vector<std::string> names);
    StateGraph breadth_first() const;

    std::vector<State> states_;
    std::vector<std::size_t> initial_; // in the definition's order
    std::map<std::string, std::size_t, std::less<>> numbers_;
};

// `"a", "b"`, for messages.
std::string quoted_list(const std::vector<std::string> &names);

} // namespace idem::core
