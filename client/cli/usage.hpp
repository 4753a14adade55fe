// Errors of the command itself, as opposed to those of the library.
#pragma once

#include <stdexcept>
#include <string>

namespace idem::cli {

/// The caller's mistake: exit code 64.
struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// An end with an exit code of its own.
class exit_error : public std::runtime_error {
  public:
    exit_error(int code, const std::string &message) : std::runtime_error(message), code_(code) {}
    int code() const noexcept { return code_; }

  private:
    int code_;
};

} // namespace idem::cli
