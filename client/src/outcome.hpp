// Outcomes: enumerations, and the words for them that the SQL functions return.
#pragma once

#include <array>
#include <string>

#include <idem/statement.hpp>

namespace idem::detail {

/// The index of a word is the value of its outcome.
template <std::size_t N> using words = std::array<const char *, N>;

template <typename Outcome, std::size_t N> Outcome outcome_of(const words<N> &known, const parameter &word) {
    for (std::size_t i = 0; i < N; ++i)
        if (word == known[i])
            return static_cast<Outcome>(i);
    throw error("XX000", "the server answered \"" + word.value_or("NULL") + "\" where an outcome was expected");
}

template <typename Outcome, std::size_t N> const char *word_of(const words<N> &known, Outcome outcome) noexcept {
    return known[static_cast<std::size_t>(outcome)];
}

} // namespace idem::detail
