// JSON values as a fuzz target sees them: numbers as exact decimals, objects as sets of members. Parsed by nlohmann-json, which
// shares nothing with the core.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace idem::fuzz {

// A decimal number: 0.DIGITS times ten to the power of `exponent`; no zeros at either end, zero has no digits.
struct Decimal {
    bool negative = false;
    std::string digits;
    long exponent = 0;

    bool operator==(const Decimal &) const = default;
};

// Nothing when the text is not digits with an optional sign, fraction and exponent.
std::optional<Decimal> decimal_of(std::string_view text);

struct Json {
    enum class Kind { null, boolean, number, string, array, object };

    Kind kind = Kind::null;
    bool boolean = false;
    Decimal number;
    std::string string;
    std::vector<Json> elements;
    std::map<std::string, Json> members; // of several of one name the last, as in jsonb

    bool operator==(const Json &) const = default;
};

// Nothing when the text is not JSON, or nested too deeply for a recursive walk, or has a number that is too long to write out.
std::optional<Json> parse_json(std::string_view text);

} // namespace idem::fuzz
