// A connection by libpq alone, so that what is tested and what tests it share no code. No statement waits longer than a
// minute: whoever would is hung, which is a finding.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clock.hpp"

struct pg_conn;

namespace chaos {

inline constexpr Nanoseconds kLongestAnswer = 60 * kSecond;

using Value = std::optional<std::string>; // nullopt: NULL

struct Answer {
    bool lost = false;             // the connection broke: whether the server has acted is not known
    bool hung = false;             // and it did because no answer came for a minute
    std::string sqlstate, message; // of an error; both may be empty when lost
    std::string tag;               // what the command says it did
    std::vector<std::vector<Value>> rows;

    bool ok() const { return !lost && sqlstate.empty(); }
    // The first field; nullopt for NULL and where there is none.
    Value field(std::size_t column = 0) const {
        return rows.empty() || rows[0].size() <= column ? std::nullopt : rows[0][column];
    }
};

// One thread's.
class Connection {
  public:
    Connection() = default;
    ~Connection() { close(); }
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    bool open(const std::string &dsn);
    bool is_open() const { return connection_ != nullptr; }
    void close();

    // Without values in the simple protocol, with values in the extended one. Closes the connection when it is lost.
    Answer run(const std::string &sql, const std::vector<Value> &values = {});

  private:
    Answer collect();
    bool wait_for_input(Nanoseconds until);

    pg_conn *connection_ = nullptr;
};

} // namespace chaos
