// Single calls whose rows are printed: one JSON object per row.
#pragma once

#include <string>
#include <vector>

#include <idem/statement.hpp>

#include "options.hpp"

namespace idem::cli {

/// The same error as not_installed, with a hint.
[[noreturn]] void too_old(const error &problem);

/// Returns the result of `call()`. Throws not_installed with a hint if this server lacks the function of the extension.
template <typename F> auto ask(context &c, F &&call) {
    c.db.schema(); // fails at once if there is no connection
    try {
        return call();
    } catch (const not_installed &problem) {
        if (problem.sqlstate() == "42883")
            too_old(problem);
        throw;
    }
}

/// The first column of all rows. Throws not_installed with a hint if this server lacks any object of the extension.
std::vector<std::string> query(context &c, const detail::statement &what, detail::parameters values = {}, subject about = {});

/// Prints rows as a table or as JSON.
void show(const context &c, const std::vector<std::string> &objects, const std::vector<std::string> &columns);

/// Prints the values of the object in one line, or the object as JSON.
void show_outcome(const context &c, const std::string &object);
/// The same for an outcome of one word.
void show_word(const context &c, const std::string &outcome);

} // namespace idem::cli
