// The library's own statements, their parameters and rows. For code that extends the library; applications do not need it.
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
#include <idem/request.hpp>

namespace idem {
class target;
}

namespace idem::detail {

/// `name` is unique among all statements of the library. In `text`, @idem@ stands for the quoted schema of the extension.
/// `repeatable`: after a lost reply, running it a second time has the same effect and result as running it once (reads, calls
/// with an owner, new numbers).
struct statement {
    const char *name;
    const char *text;
    bool repeatable = false;
};

/// In text format; std::nullopt is NULL.
using parameter = std::optional<std::string>;
using parameters = std::vector<parameter>;

struct command {
    const statement *what;
    parameters values;
    subject about{}; ///< for errors
};

/// One row of an answer, in text format.
using record = std::vector<std::optional<std::string>>;
using rows = std::vector<record>;

/// Runs one of the library's statements where `at` says.
rows call(const target &at, const command &command);

/// Milliseconds as the text of an interval; std::nullopt stays NULL.
parameter interval_text(const std::optional<std::chrono::milliseconds> &duration);
/// The longest wait as the text of an interval; without a bound, a hundred years.
parameter wait_text(const wait_limit &wait);
/// The text of an array.
std::string array_text(const std::vector<parameter> &elements);
/// Throws error (XX000) when the answer is not an integer.
std::int64_t to_integer(const parameter &answer);
/// Throws bad_input (22021) when a parameter contains a zero byte: PostgreSQL's text cannot contain one, and libpq would
/// truncate the parameter there. Throws bad_input (54000) when the parameters are larger than one message may be: the server
/// would close the connection, and a retry would not help.
void reject_unsendable(const command &command);
/// 128 random bits as 32 hexadecimal digits: a call's owner.
std::string make_nonce();

class session;
class client_state;

/// A connection in use; its destructor returns it to the pool. Movable.
class pooled_session {
  public:
    pooled_session() = default;
    pooled_session(client_state &pool, std::unique_ptr<session> taken);
    pooled_session(pooled_session &&) noexcept;
    pooled_session &operator=(pooled_session &&) noexcept;
    ~pooled_session();

    session &operator*() const noexcept { return *session_; }
    session *operator->() const noexcept { return session_.get(); }

  private:
    client_state *pool_ = nullptr;
    std::unique_ptr<session> session_;
};

} // namespace idem::detail
