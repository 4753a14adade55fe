// Results as tables and as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace idem::cli {

/// Control characters as \n, \t, \x1b …: values from a database must not control a terminal.
std::string printable(std::string_view text);

/// JSON objects with the same keys as a table with a heading; numbers are right-aligned. `columns` is the heading if there are
/// no rows.
std::string as_table(const std::vector<std::string> &objects, const std::vector<std::string> &columns = {});

/// One JSON array of the unchanged objects, one line each.
std::string as_json(const std::vector<std::string> &objects);

/// Writes to stdout and flushes it; throws exit_error (74) if that fails.
void print(const std::string &text);

} // namespace idem::cli
