// Statements of idem's own, their parameters and rows. For those who extend the library; users need none of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <idem/error.hpp>

namespace idem::detail {

/// `name` is unique among all statements of the library; in `text`, @idem@ stands for the quoted schema of the extension.
/// `repeatable`: running it a second time after a lost reply tells and does the same as the first time (reads, calls under an
/// owner's nonce, fresh numbers).
struct statement {
    const char *name;
    const char *text;
    bool repeatable = false;
};

/// In text format; nothing stands for NULL.
using parameter = std::optional<std::string>;
using parameters = std::vector<parameter>;

struct command {
    const statement *what;
    parameters values;
    subject about{}; ///< for errors
};

using row = std::vector<std::optional<std::string>>;
using rows = std::vector<row>;

/// Milliseconds as an interval the server reads; nothing stays NULL.
parameter interval_text(const std::optional<std::chrono::milliseconds> &duration);
/// Elements as an array literal.
std::string array_text(const std::vector<parameter> &elements);
/// Throws error (XX000) when the server answered something else.
std::int64_t to_integer(const parameter &answer);
/// Throws bad_input (22021) when a parameter has a zero byte in it: no text of the server's can hold one, and libpq would send
/// what comes before it. Throws bad_input (54000) when the parameters are more than the server takes in one message: it would
/// hang up, which is no reason to try again.
void refuse_unsendable(const command &command);
/// 128 random bits as 32 hexadecimal digits: the owner's nonce of a call.
std::string make_nonce();

class session;
class client_state;

/// A connection of the pool while somebody uses it; goes back when destroyed. Movable.
class session_lease {
  public:
    session_lease() = default;
    session_lease(client_state &owner, std::unique_ptr<session> held);
    session_lease(session_lease &&) noexcept;
    session_lease &operator=(session_lease &&) noexcept;
    ~session_lease();

    session &operator*() const noexcept { return *held_; }
    session *operator->() const noexcept { return held_.get(); }

  private:
    client_state *owner_ = nullptr;
    std::unique_ptr<session> held_;
};

} // namespace idem::detail
