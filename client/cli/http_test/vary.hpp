// Variants of a request's body.
#pragma once

#include <optional>
#include <string>

namespace idem::cli::http_test {

/// Another request: the first number of a JSON body is one greater, or its first text one letter longer; another body gets a
/// character more. Empty if nothing in the body can change.
std::string changed(const std::string &body);

/// The same value, written otherwise. Nothing if the body has nothing to vary: it is no JSON object, has one member only, no
/// integer.
std::optional<std::string> with_other_member_order(const std::string &body);
std::optional<std::string> with_white_space(const std::string &body);
std::optional<std::string> with_fraction(const std::string &body); ///< 1 as 1.0

/// Another value: one more member that is null, an array in another order.
std::optional<std::string> with_null_member(const std::string &body);
std::optional<std::string> with_other_array_order(const std::string &body);

} // namespace idem::cli::http_test
