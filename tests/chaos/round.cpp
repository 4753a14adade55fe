#include "round.hpp"

namespace chaos {

void Findings::add(Violation violation) {
    const std::lock_guard guard(lock_);
    found_.push_back(std::move(violation));
}

void Findings::add(const std::string &guarantee, const std::string &key, const std::string &explanation,
                   const Transaction &seen_in) {
    Violation violation;
    violation.guarantee = guarantee;
    violation.key = key;
    violation.explanation = explanation;
    violation.history.transactions.push_back(seen_in);
    add(std::move(violation));
}

std::vector<Violation> Findings::all() const {
    const std::lock_guard guard(lock_);
    return found_;
}

} // namespace chaos
