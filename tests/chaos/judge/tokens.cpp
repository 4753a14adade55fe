// A token is accepted for at most one transaction that committed.
#include "guarantees.hpp"

namespace chaos::judge {

void check_tokens(const Index &index, Findings &findings) {
    for (const auto &[name, subject] : index.subjects()) {
        if (subject.kind != Kind::token)
            continue;
        const Transaction *accepted = nullptr;
        for (const auto &asked : subject.asked) {
            if (!made_holder(*asked.step) || asked.step->undone || index.fate(asked) != Fate::committed)
                continue;
            if (accepted != nullptr) {
                findings.add("a token is accepted once", Kind::token, subject.name,
                             "accepted for " + named(index, *accepted) + " and for " + named(index, *asked.transaction),
                             {accepted, asked.transaction});
                break;
            }
            accepted = asked.transaction;
        }
    }
}

} // namespace chaos::judge
