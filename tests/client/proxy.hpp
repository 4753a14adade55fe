// A TCP proxy in front of the server. It knows where PostgreSQL's messages begin and end, and breaks the connection at a given
// message.
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

#include <sys/types.h>

namespace test {

enum class side { frontend, backend }; // the sender of the message
enum class moment { before, after };   // the message is forwarded

/// The place of a cut: the `nth` message (from 1) that this side sends after the cut was armed, on any connection.
struct cut {
    side by = side::frontend;
    int nth = 1;
    moment when = moment::before;
    /// How long the server does not notice the cut, as in a network partition: its end stays open, and its messages are
    /// dropped.
    std::chrono::milliseconds unnoticed{0};
    /// A process that is killed there; 0: none.
    pid_t victim = 0;
};

std::string to_string(const cut &where);

/// Thread-safe. Forwards everything, except at an armed cut, which happens once.
class proxy {
  public:
    /// `upstream`: the directory of the server's socket; empty: PGHOST. Listens on a free port of the loopback interface.
    explicit proxy(const std::string &upstream = "");
    ~proxy();
    proxy(const proxy &) = delete;
    proxy &operator=(const proxy &) = delete;

    std::string dsn() const;
    /// Starts counting messages, from 1, and arms a cut.
    void arm(const cut &where);
    /// Starts counting without a cut.
    void count();
    /// Whether the armed cut has happened, and the client's end of the connection is closed.
    bool has_cut() const;
    /// The type bytes of the messages that were counted, up to the cut; '^' is a startup packet.
    std::string seen(side by) const;
    /// Breaks all open connections.
    void cut_all();
    /// While set, new connections are closed at once.
    void refuse(bool refusing);
    /// While set, nothing is forwarded, and connections stay open: a server that does not answer.
    void stall(bool stalling);

  private:
    struct stream {
        int from, to;
        side by;
        bool started = false; // the startup packet was read
        std::string pending;  // the beginning of a message
    };
    struct link {
        int client, server;
        stream up, down;
        std::optional<std::chrono::steady_clock::time_point> hang_up; // when to close the server's end
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
    std::atomic<bool> stopping_{false}, refusing_{false}, cutting_all_{false}, stalling_{false};

    mutable std::mutex lock_; // guards what follows
    std::optional<cut> armed_;
    bool reached_ = false; // the place of the cut
    bool closed_ = false;  // the client's end, by the cut
    std::string seen_[2];

    std::list<link> links_; // used only by the thread
    std::thread thread_;
};

} // namespace test
