#include "text.hpp"

#include <cstddef>
#include <cstdio>

namespace demo {

std::string grouped(std::int64_t number) {
    std::string text = std::to_string(number);
    const std::ptrdiff_t sign = number < 0;
    for (auto place = static_cast<std::ptrdiff_t>(text.size()) - 3; place > sign; place -= 3)
        text.insert(static_cast<std::size_t>(place), 1, ',');
    return text;
}

bool expect(bool kept, const std::string &broken_promise) {
    if (!kept)
        std::printf("FAILED: %s\n", broken_promise.c_str());
    return kept;
}

} // namespace demo
