// What the fuzz targets share. A target is one file with one FUZZ_TARGET: a function of arbitrary bytes that works on the core
// and states what must hold, whatever the bytes are. libFuzzer drives it (scripts/fuzz.sh), or replay.cpp does with the seeds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>

namespace idem::fuzz {

// Takes an input apart. What is wanted beyond its end is zero, or empty.
class Input {
  public:
    explicit Input(std::string_view bytes) : rest_(bytes) {}

    bool empty() const { return rest_.empty(); }
    std::string_view rest() { return take(rest_.size()); }
    std::string_view take(std::size_t size) {
        const std::string_view taken = rest_.substr(0, size);
        rest_.remove_prefix(taken.size());
        return taken;
    }

    template <typename Number> Number number() {
        std::make_unsigned_t<Number> value = 0;
        for (const char c : take(sizeof(Number)))
            value = static_cast<decltype(value)>(static_cast<std::uint64_t>(value) << 8 | static_cast<unsigned char>(c));
        return static_cast<Number>(value);
    }
    bool flag() { return (number<std::uint8_t>() & 1) != 0; }
    std::size_t below(std::size_t bound) { return number<std::uint32_t>() % bound; }
    template <typename Number> Number between(Number low, Number high) {
        const auto width = static_cast<unsigned __int128>(static_cast<__int128>(high) - low) + 1;
        return static_cast<Number>(low + static_cast<__int128>(number<std::uint64_t>() % width));
    }

    // Up to the next `end`, which is left out.
    std::string_view until(char end) {
        const auto at = rest_.find(end);
        const std::string_view taken = take(std::min(at, rest_.size()));
        take(at == std::string_view::npos ? 0 : 1);
        return taken;
    }
    // A short one, behind its length.
    std::string_view text(std::size_t longest) { return take(number<std::uint8_t>() % (longest + 1)); }

  private:
    std::string_view rest_;
};

} // namespace idem::fuzz

#define REQUIRE(condition)                                                                                                     \
    do {                                                                                                                       \
        if (!(condition)) {                                                                                                    \
            std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                                \
            std::abort();                                                                                                      \
        }                                                                                                                      \
    } while (false)

#define FUZZ_TARGET(input)                                                                                                     \
    static void check_input(idem::fuzz::Input input);                                                                          \
    extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {                                        \
        check_input(idem::fuzz::Input({reinterpret_cast<const char *>(data), size}));                                          \
        return 0;                                                                                                              \
    }                                                                                                                          \
    static void check_input(idem::fuzz::Input input)
