// Single calls whose rows are shown: one JSON object a row.
#pragma once

#include <string>
#include <vector>

#include <idem/statement.hpp>

#include "options.hpp"

namespace idem::cli {

/// The first column of all rows. An object of the extension that this server lacks is not_installed, whatever kind it is of.
std::vector<std::string> query(context &c, const detail::statement &what, detail::parameters values = {}, subject about = {});

/// Rows as a table or as JSON.
void show(const context &c, const std::vector<std::string> &objects, const std::vector<std::string> &columns);

/// A word that scripts read, or {"outcome": …} with more of the object.
void show_outcome(const context &c, const std::string &object);

} // namespace idem::cli
