#include "core/state_graph.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace idem::core {

namespace {

constexpr std::size_t kMaxQuotedBytes = 80;

// A name in a message. A long name is cut, but not inside a UTF-8 character.
std::string quoted(const std::string &name) {
    std::size_t end = name.size();
    if (end > kMaxQuotedBytes) {
        end = kMaxQuotedBytes;
        while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80)
            end--;
    }
    return '"' + name.substr(0, end) + (end < name.size() ? "...\"" : "\"");
}

[[noreturn]] void reject(const std::string &reason) { throw std::invalid_argument(reason); }

void check_name(const std::string &name) {
    if (name.empty())
        reject("state must not be empty");
}

bool contains(const std::vector<std::string> &names, const std::string &name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns the first repeated name, or nullptr.
const std::string *duplicate_in(const std::vector<std::string> &names) {
    std::set<std::string_view> seen;
    for (const auto &name : names)
        if (!seen.insert(name).second)
            return &name;
    return nullptr;
}

} // namespace

void StateGraph::Builder::state(std::string_view name) { state_list_.emplace_back(name); }

void StateGraph::Builder::states_are_listed() { has_state_list_ = true; }

void StateGraph::Builder::initial(std::string_view name) { initial_.emplace_back(name); }

void StateGraph::Builder::transitions(std::string_view from) { sources_.emplace_back(from); }

void StateGraph::Builder::transition(std::string_view from, std::string_view to) {
    edges_.push_back({std::string(from), std::string(to)});
}

bool StateGraph::Builder::mentions(const std::string &name) const {
    return contains(sources_, name) ||
           std::any_of(edges_.begin(), edges_.end(), [&](const Edge &edge) { return edge.to == name; });
}

void StateGraph::Builder::check_list() const {
    if (const auto *duplicate = duplicate_in(state_list_))
        reject("state " + quoted(*duplicate) + " is listed twice in \"states\"");
    if (!has_state_list_)
        return;
    const std::set<std::string_view> known(state_list_.begin(), state_list_.end());
    for (const auto &name : all_names())
        if (!known.contains(name))
            reject("state " + quoted(name) + " is not in \"states\"");
}

void StateGraph::Builder::check_initial() const {
    if (initial_.empty())
        reject("machine has no initial state");
    if (const auto *duplicate = duplicate_in(initial_))
        reject("initial state " + quoted(*duplicate) + " is listed twice");
    for (const auto &name : initial_)
        if (!has_state_list_ && !mentions(name))
            reject("unknown initial state " + quoted(name) + ": neither \"transitions\" nor \"states\" has it");
}

void StateGraph::Builder::check_edges() const {
    std::set<std::pair<std::string_view, std::string_view>> seen;
    for (const auto &edge : edges_)
        if (!seen.emplace(edge.from, edge.to).second)
            reject("transition from " + quoted(edge.from) + " to " + quoted(edge.to) + " is listed twice");
}

// All names of the definition. A name may appear more than once.
std::vector<std::string> StateGraph::Builder::all_names() const {
    std::vector<std::string> names = initial_;
    names.insert(names.end(), sources_.begin(), sources_.end());
    for (const auto &edge : edges_) {
        names.push_back(edge.from);
        names.push_back(edge.to);
    }
    names.insert(names.end(), state_list_.begin(), state_list_.end());
    return names;
}

StateGraph StateGraph::Builder::build() const {
    const std::vector<std::string> names = all_names();
    std::for_each(names.begin(), names.end(), check_name);
    check_initial();
    check_edges();
    check_list();
    StateGraph graph;
    graph.add_names(names);
    for (const auto &name : initial_)
        graph.initial_.push_back(graph.numbers_.at(name));
    for (const auto &edge : edges_)
        graph.states_[graph.numbers_.at(edge.from)].next.push_back(graph.numbers_.at(edge.to));
    return graph.breadth_first();
}

void StateGraph::add_names(std::vector<std::string> names) {
    for (auto &name : names)
        if (numbers_.emplace(name, states_.size()).second)
            states_.emplace_back().name = std::move(name);
}

// Returns the same graph, its states in breadth-first order from the initial ones. Throws when a state cannot be reached.
StateGraph StateGraph::breadth_first() const {
    std::vector<std::size_t> walk = initial_;
    std::vector<bool> seen(states_.size());
    for (std::size_t state : walk)
        seen[state] = true;
    for (std::size_t i = 0; i < walk.size(); i++)
        for (std::size_t next : states_[walk[i]].next)
            if (!seen[next]) {
                seen[next] = true;
                walk.push_back(next);
            }
    for (std::size_t i = 0; i < states_.size(); i++)
        if (!seen[i])
            reject("state " + quoted(states_[i].name) + " cannot be reached from an initial state");

    StateGraph ordered;
    for (std::size_t state : walk)
        ordered.add_names({states_[state].name});
    const auto renumber = [&](std::size_t state) { return ordered.numbers_.at(states_[state].name); };
    for (std::size_t state : initial_)
        ordered.initial_.push_back(renumber(state));
    for (std::size_t state : ordered.initial_)
        ordered.states_[state].initial = true;
    for (std::size_t i = 0; i < walk.size(); i++) {
        State &ordered_state = ordered.states_[i];
        for (std::size_t next : states_[walk[i]].next)
            ordered_state.next.push_back(renumber(next));
        ordered_state.next_sorted = ordered_state.next;
        std::sort(ordered_state.next_sorted.begin(), ordered_state.next_sorted.end());
    }
    return ordered;
}

const StateGraph::State *StateGraph::find(std::string_view name) const noexcept {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? nullptr : &states_[found->second];
}

bool StateGraph::is_state(std::string_view name) const noexcept { return find(name) != nullptr; }

bool StateGraph::is_initial(std::string_view name) const noexcept {
    const State *state = find(name);
    return state != nullptr && state->initial;
}

bool StateGraph::can(std::string_view from, std::string_view to) const noexcept {
    const State *state = find(from), *next = find(to);
    if (state == nullptr || next == nullptr)
        return false;
    const auto number = static_cast<std::size_t>(next - states_.data());
    return std::binary_search(state->next_sorted.begin(), state->next_sorted.end(), number);
}

std::vector<std::string> StateGraph::successors(std::string_view from) const {
    std::vector<std::string> names;
    if (const State *state = find(from))
        for (std::size_t next : state->next)
            names.push_back(states_[next].name);
    return names;
}

std::vector<std::string> StateGraph::initial_states() const {
    std::vector<std::string> names;
    for (std::size_t state : initial_)
        names.push_back(states_[state].name);
    return names;
}

std::string quoted_list(const std::vector<std::string> &names) {
    std::string list;
    for (const auto &name : names)
        list += (list.empty() ? "\"" : ", \"") + name + '"';
    return list;
}

} // namespace idem::core
