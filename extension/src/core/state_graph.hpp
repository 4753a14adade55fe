// The graph of a state machine: which states there are, which of them a new row may have, and which may follow which.
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
    // What a definition says, member by member in its order. Nothing is checked before build().
    class Builder {
      public:
        void state(std::string_view name);       // a member of "states", which lists them all
        void states_are_listed();                // there is such a list, be it empty
        void initial(std::string_view name);     // a member of "initial"
        void transitions(std::string_view from); // `from` has a list of transitions, be it empty
        void transition(std::string_view from, std::string_view to);

        // Throws std::invalid_argument, naming the culprit: an empty name, a state, initial state or transition given twice, no
        // initial state, one that nothing else mentions, a state that is not in the list, a state that cannot be reached.
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

        bool listed_ = false;
        std::vector<std::string> list_, initial_, mentioned_;
        std::vector<Edge> edges_;
    };

    // Questions by name; a name that is no state has no answer but "no". They neither throw nor allocate.
    bool is_state(std::string_view name) const noexcept;
    bool is_initial(std::string_view name) const noexcept;
    bool can(std::string_view from, std::string_view to) const noexcept;

    // By number, from 0: breadth first from the initial states, which is the order in which a reader meets them.
    std::size_t size() const noexcept { return states_.size(); }
    const std::string &name(std::size_t state) const noexcept { return states_[state].name; }

    // What can be reached in one step, as the definition lists it; empty for what is no state.
    std::vector<std::string> successors(std::string_view from) const;
    // As the definition lists them.
    std::vector<std::string> initial_states() const;

    // The graph as text for Graphviz, and for Mermaid. Initial states are entered from a point; terminal ones have a double
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
