// Runs a command as a child process: its signals, output and end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace idem::cli {

/// While it exists, TERM, INT, HUP, QUIT, USR1 and USR2 do not end the program but wait in this queue, and TSTP, TTIN and TTOU
/// do not stop it (a stopped program cannot renew its lease). Signals that were ignored before (nohup) stay ignored. Those that
/// are in the queue at its end are dropped. REQUIRES: no other thread has been started, and there is one object per program.
class signal_queue {
  public:
    signal_queue();
    ~signal_queue();
    signal_queue(const signal_queue &) = delete;
    signal_queue &operator=(const signal_queue &) = delete;

    /// Readable when the queue is not empty. SIGCHLD is queued too.
    int fd() const noexcept { return fd_; }
    /// Removes and returns the next signal; 0: none.
    int take();
    /// The same for a signal that somebody has sent: SIGCHLD is dropped, as it may be of a child that exec has handed on.
    int take_request();
    /// For a child between fork and exec: restores the signal handling from before the constructor.
    void restore() const noexcept;

  private:
    struct saved;
    saved *saved_;
    int fd_;
};

/// An event that any thread may set and that poll can wait for. Once set it stays set.
class stop_event {
  public:
    stop_event();
    ~stop_event();
    stop_event(const stop_event &) = delete;
    stop_event &operator=(const stop_event &) = delete;

    void set() noexcept;
    int fd() const noexcept { return fd_; }

  private:
    int fd_;
};

struct child_options {
    std::vector<std::string> command;
    std::vector<std::pair<std::string, std::string>> environment; ///< in addition to the inherited environment
    bool capture = false;                                         ///< store stdout and stderr, and pass them on
    std::size_t max_captured = 512 * 1024;                        ///< the limit of stored bytes, of each
    std::chrono::milliseconds grace{10'000};                      ///< between TERM and KILL, when `stop` is set
};

/// The output of one of the child's streams. Over the limit nothing is stored.
struct captured {
    std::string bytes;
    std::uint64_t size = 0; ///< of the whole output, stored or not
    int problem = 0;        ///< the errno for which it could not be passed on, other than that its reader is gone
    bool complete() const noexcept { return bytes.size() == size; }
};

struct child_end {
    enum class how {
        exited,         ///< `value` is its exit code
        signalled,      ///< … the signal that ended it
        not_started,    ///< … the errno of exec: the command did not run at all
        never_attempted ///< … the signal that arrived before it was started
    };
    how what = how::exited;
    int value = 0;
    bool stopped = false;      ///< it got TERM because `stop` was set
    bool out_of_reach = false; ///< it got no signals, because it runs as another user
    captured out, err;

    /// As in a shell: 127 not found, 126 not executable, 128 + n signal n.
    int exit_code() const noexcept;
    bool succeeded() const noexcept { return what == how::exited && value == 0; }
};

/// Runs the command in a process group of its own and returns when it has ended. Queued signals are forwarded to the group; a
/// second INT kills it. When `stop` is set the group gets TERM, and KILL after the grace. When this program dies, the child is
/// killed, unless it has taken the rights of another user or group (sudo). If stdin is a terminal, the child reads /dev/null
/// instead (reading the terminal would stop it). Output that the child's own children write after its end is lost, and so is
/// what our reader does not take within a second of it, once TERM, INT, HUP or QUIT has arrived or `stop` is set.
///
/// Throws std::system_error when the system cannot create a process. REQUIRES: the calling thread is the one that runs main().
child_end run_child(const child_options &options, signal_queue &signals, const stop_event &stop);

} // namespace idem::cli
