// What is published several times under one dedup_id is one message, and everybody is told its id. Nobody takes messages out,
// and no dedup_id is forgotten while it is in use.
#include <algorithm>

#include "guarantees.hpp"

namespace chaos::judge {
namespace {

const std::string kOnce = "one message per dedup_id";

void check_subject(const Index &index, const Subject &subject, const std::vector<std::int64_t> &ids, Findings &findings) {
    std::vector<const Transaction *> publishers; // that may have committed
    const Transaction *told_otherwise = nullptr;
    const Transaction *without_message = nullptr;
    for (const auto &asked : subject.asked) {
        const auto &step = *asked.step;
        const auto fate = index.fate(asked);
        if (step.undone || fate == Fate::aborted || (answered(step) && !succeeded(step)))
            continue;
        if (publishers.size() < 10)
            publishers.push_back(asked.transaction);
        if (fate != Fate::committed || !answered(step))
            continue;
        if (ids.empty())
            without_message = asked.transaction;
        else if (step.value_given != ids.front())
            told_otherwise = asked.transaction;
    }
    const auto add = [&](const std::string &explanation) {
        findings.add(kOnce, Kind::message, subject.name, explanation, publishers);
    };
    if (ids.size() > 1)
        add("there are " + std::to_string(ids.size()) + " messages");
    else if (without_message != nullptr)
        add(named(index, *without_message) + " published, and there is no message");
    else if (told_otherwise != nullptr)
        add(named(index, *told_otherwise) + " was told an id that is not the message's");
    else if (!ids.empty() && publishers.empty())
        add("there is a message that nobody published");
}

} // namespace

void check_publications(const Index &index, Findings &findings) {
    std::map<std::string, std::vector<std::int64_t>> ids;
    for (const auto &[dedup_id, id] : index.history().final_state.messages)
        ids[dedup_id].push_back(id);
    for (const auto &[name, subject] : index.subjects())
        if (subject.kind == Kind::message)
            check_subject(index, subject, ids[subject.name], findings);
}

} // namespace chaos::judge
