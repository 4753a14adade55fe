// The log of an order is a path of allowed transitions that ends in its state, and it holds what callers were told, no less and
// no more.
#include <algorithm>

#include "guarantees.hpp"

namespace chaos::judge {
namespace {

const std::string kAllowed = "only allowed transitions";

std::vector<const Transaction *> movers(const Subject *subject) {
    std::vector<const Transaction *> found;
    if (subject != nullptr)
        for (const auto &asked : subject->asked)
            if (may_have_changed(*asked.step) && asked.step->outcome != "already" && found.size() < 20)
                found.push_back(asked.transaction);
    return found;
}

// The log says when each move was made, which need not be the order in which they committed: that there is some order in which
// they are one path, from an initial state to the one it is in, is all that can be asked. (Euler: as many moves leave a state
// as enter it, but for the two ends, and all hang together.)
bool is_path(const std::vector<const Move *> &moves, const std::string &start, const std::string &end) {
    std::map<std::string, std::vector<std::string>> next;
    std::map<std::string, std::int64_t> balance;
    for (const auto *move : moves) {
        next[move->from].push_back(move->to);
        ++balance[move->from];
        --balance[move->to];
    }
    --balance[start];
    ++balance[end];
    if (std::any_of(balance.begin(), balance.end(), [](const auto &state) { return state.second != 0; }))
        return false;
    std::set<std::string> reached{start};
    std::vector<std::string> work{start};
    while (!work.empty()) {
        const auto from = work.back();
        work.pop_back();
        for (const auto &to : next[from])
            if (reached.insert(to).second)
                work.push_back(to);
    }
    return std::all_of(moves.begin(), moves.end(), [&](const Move *move) { return reached.contains(move->from); });
}

std::string arrow(const Move &move) { return "\"" + move.from + "\" to \"" + move.to + "\""; }

void check_path(const std::set<std::pair<std::string, std::string>> &allowed, const Subject *subject, const std::string &order,
                const std::vector<const Move *> &path, const std::string *state, Findings &findings) {
    std::vector<const Move *> moves;
    std::set<std::string> starts;
    for (const auto *move : path) {
        if (!allowed.contains({move->from, move->to})) {
            findings.add(kAllowed, Kind::order, order, "the log has " + arrow(*move) + ", which the machine lacks",
                         movers(subject));
            return;
        }
        if (move->from.empty())
            starts.insert(move->to); // the insert is logged as well
        else
            moves.push_back(move);
    }
    if (starts.empty())
        for (const auto &[from, to] : allowed)
            if (from.empty())
                starts.insert(to);
    if (state == nullptr || starts.empty())
        return;
    if (std::none_of(starts.begin(), starts.end(), [&](const std::string &start) { return is_path(moves, start, *state); }))
        findings.add(kAllowed, Kind::order, order, "the moves in the log make no path that ends in \"" + *state + "\"",
                     movers(subject));
}

void check_told(const Index &index, const Subject &subject, const std::vector<const Move *> &path, Findings &findings) {
    struct Count {
        std::size_t certain = 0, possible = 0, logged = 0;
    };
    std::map<std::string, Count> counts;
    for (const auto &asked : subject.asked) {
        const auto &step = *asked.step;
        const bool moved = succeeded(step) && step.outcome == "moved";
        if (step.undone || index.fate(asked) == Fate::aborted || (answered(step) && !moved))
            continue;
        ++counts[step.to_state].possible;
        counts[step.to_state].certain += moved && index.fate(asked) == Fate::committed;
    }
    for (const auto *move : path)
        if (!move->from.empty()) // an insert is nobody's transition
            ++counts[move->to].logged;
    for (const auto &[to, count] : counts)
        if (count.logged < count.certain || count.logged > count.possible)
            findings.add(kAllowed, Kind::order, subject.name,
                         "the log has " + std::to_string(count.logged) + " moves to \"" + to + "\", and " +
                             std::to_string(count.certain) +
                             (count.certain == count.possible ? "" : " to " + std::to_string(count.possible)) + " were made",
                         movers(&subject));
}

} // namespace

void check_transitions(const Index &index, Findings &findings) {
    const auto &final_state = index.history().final_state;
    const auto &transitions = index.history().setup.transitions;
    if (transitions.empty())
        return;
    const std::set<std::pair<std::string, std::string>> allowed(transitions.begin(), transitions.end());
    const std::map<std::string, std::string> states(final_state.states.begin(), final_state.states.end());
    std::map<std::string, std::vector<const Move *>> paths;
    for (const auto &[order, state] : final_state.states)
        paths[order];
    for (const auto &move : final_state.moves)
        paths[move.key].push_back(&move);
    for (const auto &[order, path] : paths) {
        const auto found = states.find(order);
        const auto *subject = index.subject(Kind::order, order);
        check_path(allowed, subject, order, path, found == states.end() ? nullptr : &found->second, findings);
        if (subject != nullptr)
            check_told(index, *subject, path, findings);
    }
}

} // namespace chaos::judge
