// Composite keys can be taken apart again, so different lists of parts give different keys.
#include "core/composite_key.hpp"

#include "fuzz.hpp"

#include <vector>

namespace {

using Parts = std::vector<std::string>;

std::string join(const Parts &parts) {
    idem::core::CompositeKey key;
    for (const auto &part : parts)
        key.append(part);
    return std::move(key).take();
}

// By the grammar: a backslash makes the next character one of the part, a bare colon ends the part.
Parts split(std::string_view key) {
    Parts parts{""};
    for (std::size_t i = 0; i < key.size(); i++) {
        if (key[i] == ':') {
            parts.emplace_back();
            continue;
        }
        if (key[i] == '\\') {
            i++;
            REQUIRE(i < key.size() && (key[i] == ':' || key[i] == '\\'));
        }
        parts.back() += key[i];
    }
    return parts;
}

// At least one: a key of no parts is refused.
Parts parts_of(std::string_view text) {
    idem::fuzz::Input input(text);
    Parts parts;
    do
        parts.emplace_back(input.until('\0'));
    while (!input.empty());
    return parts;
}

} // namespace

FUZZ_TARGET(input) {
    const Parts left = parts_of(input.until('\n')), right = parts_of(input.rest());
    const std::string left_key = join(left), right_key = join(right);
    REQUIRE(split(left_key) == left);
    REQUIRE(split(right_key) == right);
    REQUIRE((left_key == right_key) == (left == right));
}
