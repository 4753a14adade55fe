// A TCP proxy in front of the server that knows where PostgreSQL's messages begin and end, and breaks the connection at the
// one it is told to.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace test {

enum class side { frontend, backend }; // who sent the message
enum class moment { before, after };   // it was passed on

/// Where to break: at the `nth` message (from 1) that this side sends once the cut is armed, on whatever connection.
struct cut {
    side by = side::frontend;
    int nth = 1;
    moment when = moment::before;
    /// How long the server goes without noticing, as when a network is partitioned: its end stays open, and what it sends is
    /// swallowed.
    std::chrono::milliseconds unnoticed{0};
};

std::string to_string(const cut &where);

/// Thread-safe. Passes everything on until a cut is armed, and after it has been made.
class proxy {
  public:
    /// `upstream`: the directory of the server's socket; empty: PGHOST. Listens on a port of its own on the loopback.
    explicit proxy(const std::string &upstream = "");
    ~proxy();
    proxy(const proxy &) = delete;
    proxy &operator=(const proxy &) = delete;

    std::string dsn() const;
    /// From now on messages are counted, from 1, and the cut is made once.
    void arm(const cut &where);
    /// Counts from now on, and cuts nothing.
    void count();
    /// Whether the cut was made, so that the client's end of the connection is closed; true for who has seen that.
    bool has_cut() const;
    /// The messages since, by their type bytes; '^' is a startup packet. Once the cut is made, nothing is added.
    std::string seen(side by) const;
    /// Breaks all connections there are.
    void cut_all();
    /// While set, new connections are closed as soon as they come.
    void refuse(bool refusing);

  private:
    struct stream {
        int from, to;
        side by;
        bool started = false; // past the startup packet
        std::string pending;  // less than a message
    };
    struct link {
        int client, server;
        stream up, down;
        std::optional<std::chrono::steady_clock::time_point> hang_up; // the server's end is to be closed then
        bool cut_here = false;
    };

    void serve();
    void accept_one();
    bool pump(link &of, stream &through);
    bool pass(link &of, stream &through, const std::string &message, char type);
    void close_client(link &of);
    void close_link(link &of);
    void wake();

    std::string upstream_;
    int listener_ = -1, port_ = 0;
    int wake_[2] = {-1, -1};
    std::atomic<bool> stopping_{false}, refusing_{false}, cutting_all_{false};

    mutable std::mutex lock_; // guards what follows
    std::optional<cut> armed_;
    bool done_ = false; // the place of the cut was reached
    bool made_ = false; // and the client's end is closed
    std::string seen_[2];

    std::list<link> links_; // of the thread alone
    std::thread thread_;
};

} // namespace test
