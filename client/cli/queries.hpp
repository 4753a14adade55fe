// Single calls whose rows are shown: one JSON object a row.
#pragma once

#include <string>
#include <vector>

#include <idem/statement.hpp>

#include "options.hpp"

namespace idem::cli {

/// The same error as not_installed, with a hint.
[[noreturn]] void too_old(const error &problem);

/// What `call()` returns; a function of the extension that this server lacks is not_installed, with a hint.
template <typename F> auto ask(context &c, F &&call) {
    c.db.schema(); // whoever cannot connect is told at once
    try {
        return call();
    } catch (const not_installed &problem) {
        if (problem.sqlstate() == "42883")
            too_old(problem);
        throw;
    }
}

/// The first column of all rows. An object of the extension that this server lacks is not_installed, whatever kind it is of.
std::vector<std::string> query(context &c, const detail::statement &what, detail::parameters values = {}, subject about = {});

/// Rows as a table or as JSON.
void show(const context &c, const std::vector<std::string> &objects, const std::vector<std::string> &columns);

/// A word that scripts read, or {"outcome": …} with more of the object.
void show_outcome(const context &c, const std::string &object);
/// The same for an outcome of one word.
void show_word(const context &c, const std::string &outcome);

} // namespace idem::cli
