// Running a command as a child: signals, output, its end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace idem::cli {

/// From its construction on, TERM, INT, HUP, QUIT, USR1 and USR2 no longer end the program but are kept for the one who asks,
/// and TSTP, TTIN and TTOU do not stop it (it could not renew its lease). What was ignored before (nohup) stays ignored. Make
/// it before the first thread. One per program.
class signal_gate {
  public:
    signal_gate();
    ~signal_gate();
    signal_gate(const signal_gate &) = delete;
    signal_gate &operator=(const signal_gate &) = delete;

    /// Becomes readable when a signal is kept, or a child has ended.
    int fd() const noexcept { return fd_; }
    /// The next kept signal, SIGCHLD included; 0: none.
    int take();
    /// In a child between fork and exec: everything as it was before the gate.
    void restore() const noexcept;

  private:
    struct saved;
    saved *saved_;
    int fd_;
};

/// Something that may be said from any thread and waited for with poll. Once said it stays said.
class bell {
  public:
    bell();
    ~bell();
    bell(const bell &) = delete;
    bell &operator=(const bell &) = delete;

    void ring() noexcept;
    int fd() const noexcept { return fd_; }

  private:
    int fd_;
};

struct child_options {
    std::vector<std::string> command;
    std::vector<std::pair<std::string, std::string>> environment; ///< on top of the own one
    bool capture = false;                                         ///< keep stdout and stderr, besides passing them on
    std::size_t keep = 512 * 1024;                                ///< bytes of each that are kept at most
    std::chrono::milliseconds grace{10'000};                      ///< between TERM and KILL, when the child is to stop
};

/// What came out of one of the child's streams. Over the limit nothing of it is kept.
struct captured {
    std::string bytes;
    std::uint64_t size = 0; ///< all that came, kept or not
    bool complete() const noexcept { return bytes.size() == size; }
};

struct child_end {
    enum class how {
        exited,         ///< `value` is its exit code
        signalled,      ///< … the signal that ended it
        not_started,    ///< … the errno of exec: the command did not run at all
        never_attempted ///< … the signal that came before it was started
    };
    how what = how::exited;
    int value = 0;
    bool stopped = false; ///< it was told to end because `stop` rang
    captured out, err;

    /// As a shell would say: 127 not found, 126 not executable, 128 + n signal n.
    int exit_code() const noexcept;
    bool succeeded() const noexcept { return what == how::exited && value == 0; }
};

/// Runs the command in a process group of its own and returns when it has ended. Signals kept by the gate are forwarded to the
/// group; a second INT kills it. When `stop` rings the group gets TERM, and KILL after the grace. When this program dies, the
/// child is killed. A terminal is not given to the child as its stdin (it would be stopped when it reads): it reads /dev/null
/// then. Captured output that the child's own children write after its end is lost.
///
/// Throws std::system_error when the system refuses to make a process. Call it in the thread that runs main().
child_end run_child(const child_options &options, signal_gate &gate, const bell &stop);

} // namespace idem::cli
