// Results for people (tables) and for programs (JSON).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace idem::cli {

/// Control characters as \n, \t, \x1b …: what comes from a database must not drive a terminal.
std::string printable(std::string_view text);

/// JSON objects of equal keys as a table with a heading; numbers to the right. `columns` are shown also when there are no rows.
std::string as_table(const std::vector<std::string> &objects, const std::vector<std::string> &columns = {});

/// JSON objects as one JSON array, one line each, unchanged.
std::string as_json(const std::vector<std::string> &objects);

/// Writes to stdout and makes sure that it arrived; throws exit_error (74).
void print(const std::string &text);

} // namespace idem::cli
