#include "board.hpp"

namespace chaos {

HotNames::HotNames(std::string prefix, std::size_t at_a_time, int uses, Nanoseconds age, int limit)
    : prefix_(std::move(prefix)), uses_(uses), limit_(limit), age_(age), hot_(at_a_time, Hot{0, 0, 0}) {}

HotNames::Hot HotNames::next(Random &random) {
    const int number = next_ < limit_ ? next_++ : static_cast<int>(random.between(0, limit_ - 1));
    return {number, static_cast<int>(random.between(uses_ / 4, uses_)), now() + random.between(age_ / 4, age_)};
}

std::string HotNames::pick(Random &random) {
    constexpr std::size_t kKept = 4; // of those that are not hot any more: for who comes late
    const std::lock_guard guard(lock_);
    if (!cold_.empty() && random.chance(0.03))
        return name(random.pick(cold_));
    Hot &hot = hot_[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(hot_.size()) - 1))];
    if (hot.uses_left-- <= 0 || hot.until < now()) {
        if (hot.until != 0)
            cold_.push_back(hot.number);
        if (cold_.size() > kKept)
            cold_.erase(cold_.begin());
        hot = next(random);
    }
    return name(hot.number);
}

Board::Board(const std::string &prefix)
    : lasting(prefix + "-once", 3, 100, 2500 * kMillisecond), brief(prefix + "-brief", 2, 100, 2500 * kMillisecond),
      forgettable(prefix + "-gone", 1, 80, 2000 * kMillisecond), leased(prefix + "-work", 3, 100, 2500 * kMillisecond),
      locks(prefix + "-lock", 2, 120, 2500 * kMillisecond), orders(prefix + "-order", 2, 60, 1500 * kMillisecond, 60),
      articles(prefix + "-article", 2, 60, 1500 * kMillisecond, 40), messages(prefix + "-message", 2, 40, 1500 * kMillisecond),
      prefix_(prefix) {}

} // namespace chaos
