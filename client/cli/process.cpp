#include "process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace idem::cli {

namespace {

constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr int kIgnored[] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE};

[[noreturn]] void fail(const char *what) { throw std::system_error(errno, std::generic_category(), what); }

class descriptor {
  public:
    explicit descriptor(int fd = -1) noexcept : fd_(fd) {}
    descriptor(descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor &operator=(descriptor &&other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor() { reset(); }

    int get() const noexcept { return fd_; }
    void reset() noexcept {
        if (fd_ >= 0)
            close(std::exchange(fd_, -1));
    }

  private:
    int fd_;
};

struct pipe_ends {
    descriptor read, write;
};

pipe_ends make_pipe() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        fail("pipe");
    return {descriptor(fds[0]), descriptor(fds[1])};
}

} // namespace

// --- signal_queue, stop_event -----------------------------------------------------------------------------------------------

struct signal_queue::saved {
    sigset_t mask;
    struct sigaction chld;
    std::array<struct sigaction, std::size(kIgnored)> ignored;
};

signal_queue::signal_queue() : saved_(new saved) {
    sigset_t queued;
    sigemptyset(&queued);
    for (int signal : kForwarded) {
        struct sigaction before {};
        sigaction(signal, nullptr, &before);
        if (before.sa_handler != SIG_IGN) // one that is blocked would be queued all the same
            sigaddset(&queued, signal);
    }
    sigaddset(&queued, SIGCHLD);
    sigprocmask(SIG_BLOCK, &queued, &saved_->mask);
    struct sigaction action {};
    action.sa_handler = SIG_DFL; // if SIGCHLD were ignored, there would be no children to wait for
    sigaction(SIGCHLD, &action, &saved_->chld);
    action.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < std::size(kIgnored); ++i)
        sigaction(kIgnored[i], &action, &saved_->ignored[i]);
    fd_ = signalfd(-1, &queued, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd_ < 0)
        fail("signalfd");
}

signal_queue::~signal_queue() {
    while (take() != 0) {
    }
    close(fd_);
    restore();
    delete saved_;
}

int signal_queue::take() {
    signalfd_siginfo info;
    return read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

int signal_queue::take_request() {
    int signal = take();
    while (signal == SIGCHLD)
        signal = take();
    return signal;
}

void signal_queue::restore() const noexcept {
    sigaction(SIGCHLD, &saved_->chld, nullptr);
    for (std::size_t i = 0; i < std::size(kIgnored); ++i)
        sigaction(kIgnored[i], &saved_->ignored[i], nullptr);
    sigprocmask(SIG_SETMASK, &saved_->mask, nullptr);
}

stop_event::stop_event() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0)
        fail("eventfd");
}

stop_event::~stop_event() { close(fd_); }

void stop_event::set() noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!write(fd_, &one, sizeof one));
}

// --- the child --------------------------------------------------------------------------------------------------------------

int child_end::exit_code() const noexcept {
    switch (what) {
    case how::exited:
        return value;
    case how::not_started:
        return value == ENOENT ? 127 : 126;
    default:
        return 128 + value;
    }
}

namespace {

/// One stream of the child: from its pipe to ours, and into memory.
class stream {
  public:
    stream(int to, std::size_t max_stored) : pipe_(make_pipe()), to_(to), max_stored_(max_stored) {}

    int child_end() const { return pipe_.write.get(); }
    void started() {
        pipe_.write.reset();
        fcntl(pipe_.read.get(), F_SETFL, O_NONBLOCK);
    }

    bool open() const { return pipe_.read.get() >= 0; }
    bool pending() const { return sent_ < unsent_.size(); }

    /// Passes nothing on any more.
    void give_up() noexcept {
        reader_gone_ = true; // the command runs to its end nevertheless
        unsent_.clear();
        sent_ = 0;
    }

    // Reads only after passing everything on, so that a slow reader slows the child.
    pollfd want() const {
        if (pending())
            return {to_, POLLOUT, 0};
        return {pipe_.read.get(), POLLIN, 0};
    }

    void move(captured &output) {
        if (pending())
            pass_on(output.problem);
        else if (open())
            take(output.bytes, output.size);
    }

  private:
    void take(std::string &stored, std::uint64_t &size) {
        char buffer[65536];
        const ssize_t count = read(pipe_.read.get(), buffer, sizeof buffer);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (count <= 0) {
            pipe_.read.reset();
            return;
        }
        size += static_cast<std::uint64_t>(count);
        if (size <= max_stored_)
            stored.append(buffer, static_cast<std::size_t>(count));
        else
            std::string().swap(stored);
        if (!reader_gone_) {
            unsent_.assign(buffer, static_cast<std::size_t>(count));
            sent_ = 0;
        }
    }

    void pass_on(int &problem) {
        // A pipe that is writable takes this much without blocking.
        const std::size_t piece = std::min<std::size_t>(unsent_.size() - sent_, PIPE_BUF);
        const ssize_t count = write(to_, unsent_.data() + sent_, piece);
        if (count >= 0)
            sent_ += static_cast<std::size_t>(count);
        else if (errno != EAGAIN && errno != EINTR) {
            if (errno != EPIPE)
                problem = errno;
            give_up();
        }
    }

    pipe_ends pipe_;
    int to_;
    std::size_t max_stored_;
    std::string unsent_;
    std::size_t sent_ = 0;
    bool reader_gone_ = false;
};

/// argv and envp, built before fork, because memory must not be allocated after it.
struct exec_arguments {
    explicit exec_arguments(const child_options &options) {
        words = options.command;
        for (std::string &word : words)
            argv.push_back(word.data());
        argv.push_back(nullptr);
        for (char **each = environ; *each; ++each) {
            const std::string_view entry = *each;
            const auto replaced = [&](const auto &added) { return entry.substr(0, entry.find('=')) == added.first; };
            if (std::none_of(options.environment.begin(), options.environment.end(), replaced))
                variables.emplace_back(entry);
        }
        for (const auto &[name, value] : options.environment)
            variables.push_back(name + "=" + value);
        for (std::string &variable : variables)
            envp.push_back(variable.data());
        envp.push_back(nullptr);
    }

    std::vector<std::string> words, variables;
    std::vector<char *> argv, envp;
};

[[noreturn]] void exec_in_child(const exec_arguments &what, const signal_queue &signals, pid_t parent, int in, int out, int err,
                                int report) {
    setpgid(0, 0);
    // The lease ends with its holder, and the child must not outlive it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && (in < 0 || dup2(in, 0) >= 0) && (out < 0 || dup2(out, 1) >= 0) &&
        (err < 0 || dup2(err, 2) >= 0)) {
        signals.restore();
        execvpe(what.argv[0], what.argv.data(), what.envp.data());
    }
    const int problem = errno;
    static_cast<void>(!write(report, &problem, sizeof problem));
    _exit(127);
}

class child {
  public:
    child(const child_options &options, signal_queue &signals, const stop_event &stop)
        : options_(options), signals_(signals), stop_(stop) {}

    child_end run() {
        if (const int signal = signals_.take_request())
            return ended(child_end::how::never_attempted, signal);
        if (options_.capture) {
            streams_.emplace_back(STDOUT_FILENO, options_.max_captured);
            streams_.emplace_back(STDERR_FILENO, options_.max_captured);
        }
        if (const int problem = start())
            return ended(child_end::how::not_started, problem);
        while (!ended_)
            step();
        drain();
        if (end_.stopped)
            kill(-pid_, SIGKILL); // the processes that the child left behind
        waitpid(pid_, nullptr, 0);
        return std::move(end_);
    }

  private:
    using clock = std::chrono::steady_clock;
    static constexpr int kLastWait = 1000; // milliseconds for our reader, once all is to end

    static child_end ended(child_end::how what, int value) {
        child_end end;
        end.what = what;
        end.value = value;
        return end;
    }

    /// 0, or the errno of exec.
    int start() {
        const exec_arguments what(options_);
        pipe_ends report = make_pipe();
        descriptor nowhere(isatty(STDIN_FILENO) ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);
        const pid_t self = getpid();
        pid_ = fork();
        if (pid_ < 0)
            fail("fork");
        if (pid_ == 0)
            exec_in_child(what, signals_, self, nowhere.get(), options_.capture ? streams_[0].child_end() : -1,
                          options_.capture ? streams_[1].child_end() : -1, report.write.get());
        setpgid(pid_, pid_); // here and in the child: whichever comes first
        report.write.reset();
        for (stream &each : streams_)
            each.started();
        int problem = 0;
        ssize_t count;
        do
            count = read(report.read.get(), &problem, sizeof problem);
        while (count < 0 && errno == EINTR);
        if (count <= 0)
            return 0;
        waitpid(pid_, nullptr, 0);
        return problem;
    }

    void step() {
        std::vector<pollfd> wanted{{signals_.fd(), POLLIN, 0}, {end_.stopped ? -1 : stop_.fd(), POLLIN, 0}};
        for (const stream &each : streams_)
            wanted.push_back(each.want());
        int timeout = -1;
        if (kill_at_)
            timeout = static_cast<int>(std::max<std::chrono::milliseconds::rep>(
                0, std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - clock::now()).count()));
        if (poll(wanted.data(), wanted.size(), timeout) < 0 && errno != EINTR)
            fail("poll");
        if (kill_at_ && clock::now() >= *kill_at_) {
            send(SIGKILL);
            kill_at_.reset();
        }
        if (wanted[0].revents)
            while (int signal = signals_.take())
                forward(signal);
        if (wanted[1].revents)
            stop();
        for (std::size_t i = 0; i < streams_.size(); ++i)
            if (wanted[2 + i].revents)
                move(i);
    }

    void forward(int signal) {
        if (signal == SIGCHLD) {
            // Not reaped yet: its group may still be signalled, so the number must not be reused.
            siginfo_t info{};
            if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_) {
                ended_ = true;
                end_.what = info.si_code == CLD_EXITED ? child_end::how::exited : child_end::how::signalled;
                end_.value = info.si_status;
            }
            return;
        }
        if (ended_)
            return;
        if (signal == SIGINT && ++interrupts_ > 1)
            signal = SIGKILL;
        send(signal);
        if (ends(signal)) {
            is_to_end_ = true;
            send(SIGCONT);
        }
    }

    void send(int signal) {
        if (kill(-pid_, signal) != 0 && errno == EPERM)
            end_.out_of_reach = true;
    }

    void stop() {
        end_.stopped = is_to_end_ = true;
        if (ended_)
            return;
        send(SIGTERM);
        send(SIGCONT);
        kill_at_ = clock::now() + options_.grace;
    }

    void move(std::size_t i) { streams_[i].move(i == 0 ? end_.out : end_.err); }

    /// Reads the rest of what the child wrote from the pipes. Does not wait for other processes that hold them open, and not
    /// for a reader of ours that takes nothing, once all is to end.
    void drain() {
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            while (streams_[i].pending() || streams_[i].open()) {
                pollfd wanted[] = {streams_[i].want(), {signals_.fd(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
                const bool waits = streams_[i].pending();
                const int ready = poll(wanted, std::size(wanted), !waits ? 0 : is_to_end_ ? kLastWait : -1);
                if (ready < 0)
                    continue; // EINTR
                if (wanted[0].revents != 0)
                    move(i);
                else if (!waits)
                    break;
                else if (ready == 0)
                    for (stream &each : streams_)
                        each.give_up();
                else
                    take_signals(wanted[2].revents != 0);
            }
        }
    }

    /// After the child's end.
    void take_signals(bool is_stopped) {
        while (const int signal = signals_.take_request())
            is_to_end_ = is_to_end_ || ends(signal);
        is_to_end_ = is_to_end_ || is_stopped;
    }

    static bool ends(int signal) { return signal != SIGUSR1 && signal != SIGUSR2; }

    const child_options &options_;
    signal_queue &signals_;
    const stop_event &stop_;
    std::vector<stream> streams_;
    child_end end_;
    pid_t pid_ = -1;
    bool ended_ = false;
    bool is_to_end_ = false; // as somebody wants, or because the lease is lost
    int interrupts_ = 0;
    std::optional<clock::time_point> kill_at_;
};

} // namespace

child_end run_child(const child_options &options, signal_queue &signals, const stop_event &stop) {
    return child(options, signals, stop).run();
}

} // namespace idem::cli
