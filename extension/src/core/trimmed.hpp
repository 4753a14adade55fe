// A text without the blanks around it.
#pragma once

#include <string_view>

namespace idem::core {

// `blanks`: the characters that are left out at both ends.
constexpr std::string_view trimmed(std::string_view text, std::string_view blanks) {
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == text.npos)
        return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

} // namespace idem::core
