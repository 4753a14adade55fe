// The run's only source of chance: who has the same seed asks for the same things.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace chaos {

// Not thread-safe: one for each thread.
class Random {
  public:
    // `stream` tells the threads of one seed apart.
    Random(std::uint64_t seed, std::uint64_t stream) {
        std::seed_seq words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                            static_cast<std::uint32_t>(stream)};
        engine_.seed(words);
    }

    // Both ends included.
    std::int64_t between(std::int64_t least, std::int64_t most) {
        return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
    }
    bool chance(double probability) { return std::bernoulli_distribution(probability)(engine_); }
    template <typename T> const T &pick(const std::vector<T> &from) {
        return from[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(from.size()) - 1))];
    }

  private:
    std::mt19937_64 engine_;
};

} // namespace chaos
