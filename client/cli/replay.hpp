// The output of commands: stored, and repeated.
#pragma once

#include <string>

#include <idem/response.hpp>

#include "options.hpp"
#include "process.hpp"

namespace idem::cli {

/// Repeats the output of an earlier command and returns its exit code. Throws exit_error when no command made the answer.
/// Messages begin with `what`.
int replay(const answer &stored, const std::string &what, const settings &given);

/// Says which output is too large to be stored.
void warn_of_limits(const child_end &end, const settings &given);

} // namespace idem::cli
