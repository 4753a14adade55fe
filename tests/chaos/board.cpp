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

std::vector<std::string> Batches::pick(Random &random) {
    Batch batch;
    {
        const std::lock_guard guard(lock_);
        while (!batches_.empty() && batches_.front().until < now())
            batches_.pop_front();
        if (batches_.empty() || random.chance(0.35)) {
            batch = {next_++, random.between(20, 80), now() + age_};
            batches_.push_back(batch);
        } else {
            batch = batches_[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(batches_.size()) - 1))];
        }
    }
    std::vector<std::string> keys;
    const bool whole = random.chance(0.5);
    for (std::int64_t i = 0; i < batch.size; i++)
        if (whole || random.chance(0.5))
            keys.push_back(prefix_ + std::to_string(batch.number) + "-" + std::to_string(i));
    return keys;
}

RingKeys::RingKeys(const std::string &prefix, const RingScope &of)
    : scope(of), lasting(prefix + "-" + of.name + "-hot", 3, 100, 3 * of.ring.retention),
      forgettable(prefix + "-" + of.name + "-gone", 1, 80, 2 * of.ring.retention),
      batches(prefix + "-" + of.name + "-batch", of.ring.retention * 5 / 4) {}

Board::Board(const std::string &prefix)
    : lasting(prefix + "-once", 3, 100, 2500 * kMillisecond), brief(prefix + "-brief", 2, 100, 2500 * kMillisecond),
      forgettable(prefix + "-gone", 1, 80, 2000 * kMillisecond), leased(prefix + "-work", 3, 100, 2500 * kMillisecond),
      locks(prefix + "-lock", 2, 120, 2500 * kMillisecond), orders(prefix + "-order", 2, 60, 1500 * kMillisecond, 60),
      articles(prefix + "-article", 2, 60, 1500 * kMillisecond, 40),
      messages(prefix + "-message", 2, 40, 1500 * kMillisecond), ring_keys{RingKeys(prefix, kRingScopes[0]),
                                                                           RingKeys(prefix, kRingScopes[1]),
                                                                           RingKeys(prefix, kRingScopes[2])},
      prefix_(prefix) {}

} // namespace chaos
