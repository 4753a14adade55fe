// The command's own errors.
#pragma once

#include <stdexcept>
#include <string>

namespace idem::cli {

/// A wrong option or value: exit code 64.
struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Ends the program with this exit code.
class exit_error : public std::runtime_error {
  public:
    exit_error(int code, const std::string &message) : std::runtime_error(message), code_(code) {}
    int code() const noexcept { return code_; }

  private:
    int code_;
};

} // namespace idem::cli
