#include <algorithm>
#include <cstdio>
#include <ostream>

#include "check.hpp"
#include "index.hpp"

namespace chaos {
namespace {

std::string milliseconds(Nanoseconds time, Nanoseconds start) {
    if (time == kNever)
        return "      never";
    char text[40];
    std::snprintf(text, sizeof text, "%11.3f", static_cast<double>(time - start) / judge::kMillisecond);
    return text;
}

std::string duration(Nanoseconds time) {
    char text[40];
    std::snprintf(text, sizeof text, "%g ms", static_cast<double>(time) / judge::kMillisecond);
    return text;
}

std::string question(const Step &step) {
    std::string text = std::string(to_string(step.call)) + "(" + step.key;
    const auto add = [&](const std::string &name, const std::string &value) {
        if (!value.empty())
            text += ", " + name + " " + value;
    };
    add("scope", step.scope);
    add("step", step.step_name);
    add("to", step.to_state);
    add("delta", step.delta == 0 ? "" : std::to_string(step.delta));
    add("owner", step.owner);
    add("fingerprint", step.fingerprint);
    add("fence", step.fence == 0 ? "" : std::to_string(step.fence));
    add("response", step.response);
    add("lease", step.lease == 0 ? "" : duration(step.lease));
    add("ttl", step.retention == 0 ? "" : duration(step.retention));
    return text + ")";
}

std::string answer(const Step &step) {
    if (step.received == kNever)
        return "no answer";
    if (!step.sqlstate.empty())
        return "error " + step.sqlstate;
    std::string text = step.outcome.empty() ? "done" : step.outcome;
    if (step.fence_given && *step.fence_given != 0 && text != std::to_string(*step.fence_given))
        text += ", fence " + std::to_string(*step.fence_given);
    if (step.attempt)
        text += ", attempt " + std::to_string(*step.attempt);
    if (step.response_given)
        text += ", response " + *step.response_given;
    if (step.value_given)
        text += (step.call == Call::publish ? ", id " : ", left ") + std::to_string(*step.value_given);
    return text + (step.undone ? " [undone]" : "");
}

struct Row {
    Nanoseconds at;
    std::string text;
};

std::vector<Row> rows(const Transaction &transaction, Nanoseconds start) {
    std::vector<Row> rows;
    char who[48];
    std::snprintf(who, sizeof who, "  c%-3d t%-8llu ", transaction.client, static_cast<unsigned long long>(transaction.id));
    for (const auto &step : transaction.steps)
        rows.push_back({step.sent, milliseconds(step.sent, start) + " -> " + milliseconds(step.received, start) + who +
                                       question(step) + " -> " + answer(step)});
    for (const auto &effect : transaction.effects)
        if (!rows.empty())
            rows.push_back({rows.back().at, std::string(26, ' ') + who + "writes an effect of " + effect.key +
                                                (effect.fence == 0 ? "" : " under fence " + std::to_string(effect.fence))});
    const auto last = rows.empty() ? transaction.begun : rows.back().at;
    rows.push_back({std::max(last, transaction.ended == kNever ? last : transaction.ended),
                    std::string(15, ' ') + milliseconds(transaction.ended, start) + who +
                        std::string(to_string(transaction.fate)) +
                        (transaction.isolation.empty() ? "" : " (" + transaction.isolation) +
                        (transaction.isolation.empty() ? ""
                         : transaction.prepared        ? ", prepared)"
                                                       : ")")});
    return rows;
}

} // namespace

void print(std::ostream &out, const Violation &violation) {
    out << "VIOLATION: " << violation.guarantee << (violation.key.empty() ? "" : ": \"" + violation.key + "\"") << '\n'
        << "  " << violation.explanation << '\n';
    const auto &history = violation.history;
    Nanoseconds start = kNever;
    for (const auto &transaction : history.transactions)
        for (const auto &step : transaction.steps)
            start = std::min(start, step.sent);
    std::vector<Row> all;
    for (const auto &transaction : history.transactions) {
        auto its = rows(transaction, start == kNever ? 0 : start);
        all.insert(all.end(), its.begin(), its.end());
    }
    std::stable_sort(all.begin(), all.end(), [](const Row &a, const Row &b) { return a.at < b.at; });
    for (const auto &row : all)
        out << row.text << '\n';
    for (const auto &[article, quantity] : history.setup.stock)
        out << "  at the start: " << quantity << " of " << article << '\n';
    for (const auto &effect : history.final_state.effects)
        out << "  in the end: an effect of " << effect.key << " by t" << effect.transaction
            << (effect.fence == 0 ? "" : " under fence " + std::to_string(effect.fence)) << '\n';
    for (const auto &[key, from, to] : history.final_state.moves)
        out << "  in the log: " << key << " from \"" << from << "\" to \"" << to << "\"\n";
    for (const auto &[article, quantity] : history.final_state.stock)
        out << "  in the end: " << quantity << " of " << article << '\n';
    for (const auto &[order, state] : history.final_state.states)
        out << "  in the end: " << order << " is \"" << state << "\"\n";
    for (const auto &[dedup_id, id] : history.final_state.messages)
        out << "  in the end: message " << id << " of " << dedup_id << '\n';
}

void print(std::ostream &out, const Report &report) {
    out << report.transactions << " transactions, " << report.calls << " calls; " << report.searched << " histories searched, "
        << report.undecided << " undecided; " << report.violations.size() + report.left_out << " violations\n";
    if (!report.undecided_keys.empty()) {
        out << "undecided:";
        for (const auto &key : report.undecided_keys)
            out << ' ' << key;
        out << '\n';
    }
    for (const auto &violation : report.violations) {
        out << '\n';
        print(out, violation);
    }
    if (report.left_out != 0)
        out << "\nand " << report.left_out << " more\n";
}

} // namespace chaos
