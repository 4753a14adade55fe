// Children: output, signals, ends; without a server.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "process.hpp"

namespace idem::cli {
namespace {

using how = child_end::how;

/// Redirects stdout and stderr of this process to files until it is destroyed.
class redirected {
  public:
    redirected() {
        for (int i = 0; i < 2; ++i) {
            saved_[i] = dup(i + 1);
            std::string name = ::testing::TempDir() + "idem-cli-XXXXXX";
            const int fd = mkstemp(name.data());
            names_[i] = name;
            dup2(fd, i + 1);
            close(fd);
        }
    }
    ~redirected() {
        for (int i = 0; i < 2; ++i) {
            dup2(saved_[i], i + 1);
            close(saved_[i]);
            std::filesystem::remove(names_[i]);
        }
    }
    std::string out() const { return content(0); }
    std::string err() const { return content(1); }

  private:
    std::string content(int i) const {
        std::ifstream file(names_[i], std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    int saved_[2];
    std::string names_[2];
};

child_end run(std::vector<std::string> command, bool capture = false, std::size_t keep = 1 << 20) {
    signal_queue signals;
    stop_event never;
    child_options options;
    options.command = std::move(command);
    options.capture = capture;
    options.max_captured = keep;
    return run_child(options, signals, never);
}

child_end shell(const std::string &script, bool capture = false, std::size_t keep = 1 << 20) {
    return run({"sh", "-c", script}, capture, keep);
}

/// Reads the lines that the child writes to a pipe, which it inherits.
class message_pipe {
  public:
    message_pipe() {
        if (pipe(fds_) != 0)
            std::abort();
    }
    ~message_pipe() {
        close(fds_[0]);
        close(fds_[1]);
    }
    std::string write_end() const { return std::to_string(fds_[1]); }
    std::string read_line() const {
        char c;
        std::string word;
        while (read(fds_[0], &c, 1) == 1 && c != '\n')
            word += c;
        return word;
    }

  private:
    int fds_[2];
};

TEST(Process, exit_code_is_passed_on) {
    EXPECT_EQ(shell("exit 0").exit_code(), 0);
    EXPECT_EQ(shell("exit 7").exit_code(), 7);
    EXPECT_EQ(shell("exit 255").exit_code(), 255);
}

TEST(Process, death_by_signal_is_128_plus_n) {
    const child_end end = shell("kill -KILL $$");
    EXPECT_EQ(end.what, how::signalled);
    EXPECT_EQ(end.exit_code(), 128 + SIGKILL);
    EXPECT_FALSE(end.succeeded());
}

TEST(Process, command_not_found_is_127_and_not_executable_126) {
    EXPECT_EQ(run({"no-such-command-anywhere"}).exit_code(), 127);
    const child_end end = run({"/etc/passwd"});
    EXPECT_EQ(end.what, how::not_started);
    EXPECT_EQ(end.exit_code(), 126);
}

TEST(Process, output_is_kept_and_passed_on) {
    redirected files;
    const child_end end = shell("echo out; echo err >&2", true);
    EXPECT_EQ(end.out.bytes, "out\n");
    EXPECT_EQ(end.err.bytes, "err\n");
    EXPECT_EQ(files.out(), "out\n");
    EXPECT_EQ(files.err(), "err\n");
}

TEST(Process, output_over_the_limit_is_passed_on_whole_and_not_kept) {
    redirected files;
    const child_end end = shell("head -c 3000000 /dev/zero; printf short >&2", true, 1000);
    EXPECT_EQ(end.out.size, 3000000u);
    EXPECT_TRUE(end.out.bytes.empty());
    EXPECT_FALSE(end.out.complete());
    EXPECT_TRUE(end.err.complete());
    EXPECT_EQ(files.out().size(), 3000000u);
}

TEST(Process, output_of_exactly_the_limit_is_kept) {
    redirected files;
    EXPECT_TRUE(shell("head -c 1000 /dev/zero", true, 1000).out.complete());
    EXPECT_FALSE(shell("head -c 1001 /dev/zero", true, 1000).out.complete());
}

TEST(Process, what_lies_in_the_pipe_at_the_end_is_not_lost) {
    for (int i = 0; i < 20; ++i) {
        redirected files;
        const child_end end = run({"head", "-c", "60000", "/dev/zero"}, true);
        EXPECT_EQ(end.out.bytes.size(), 60000u);
        EXPECT_EQ(files.out().size(), 60000u);
    }
}

TEST(Process, who_keeps_the_pipe_open_is_not_waited_for) {
    redirected files;
    const auto start = std::chrono::steady_clock::now();
    const child_end end = shell("sleep 60 & echo $!", true);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
    ASSERT_FALSE(end.out.bytes.empty());
    kill(std::stoi(end.out.bytes), SIGKILL);
}

TEST(Process, environment_is_added_and_replaced) {
    setenv("IDEM_TEST_A", "old", 1);
    redirected files;
    signal_queue signals;
    stop_event never;
    child_options options;
    options.command = {"sh", "-c", "echo $IDEM_TEST_A $IDEM_TEST_B"};
    options.environment = {{"IDEM_TEST_A", "new"}, {"IDEM_TEST_B", "two words"}};
    options.capture = true;
    EXPECT_EQ(run_child(options, signals, never).out.bytes, "new two words\n");
    unsetenv("IDEM_TEST_A");
}

TEST(Process, child_is_in_a_group_of_its_own_with_ordinary_signals) {
    redirected files;
    const child_end end = shell("cut -d ' ' -f 5 /proc/$$/stat; echo $$; grep -E 'SigBlk|SigIgn' /proc/self/status", true);
    std::istringstream lines(end.out.bytes);
    std::string group, pid, word, blocked, ignored;
    lines >> group >> pid >> word >> blocked >> word >> ignored;
    EXPECT_EQ(group, pid);
    EXPECT_EQ(std::stoull(blocked, nullptr, 16), 0u);
    EXPECT_EQ(std::stoull(ignored, nullptr, 16) & (1ull << (SIGTSTP - 1) | 1ull << (SIGPIPE - 1)), 0u);
}

/// Whether a process ends within ten seconds. The process that inherits an orphan may reap it late.
bool ends(pid_t pid) {
    const auto is_gone = [pid] {
        std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
        std::string content;
        std::getline(stat, content); // no content: the process ended between open and read
        return content.empty() || content.find(") Z ") != std::string::npos;
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_gone()) {
        if (std::chrono::steady_clock::now() > limit)
            return false;
        std::this_thread::yield();
    }
    return true;
}

class Signals : public ::testing::TestWithParam<int> {
  protected:
    // What is ignored stays ignored, and shells and nohup start commands with some of these ignored.
    void SetUp() override { saved_ = std::signal(GetParam(), SIG_DFL); }
    void TearDown() override { std::signal(GetParam(), saved_); }

  private:
    void (*saved_)(int) = SIG_DFL;
};

TEST_P(Signals, are_forwarded) {
    const int signal = GetParam();
    signal_queue signals;
    stop_event never;
    message_pipe from_child;
    child_options options;
    // The inner shell waits for its sleep in the background, so that the trap runs at once. KILL: before its exec, the sleep is
    // a copy of the shell with the same trap. It would survive a TERM and keep the inherited pipe open.
    options.command = {"sh", "-c",
                       "trap 'kill -KILL $s; exit 3' TERM INT HUP QUIT USR1 USR2; sleep 60 & s=$!; echo ready >&" +
                           from_child.write_end() + "; wait"};
    std::thread sender([&] {
        EXPECT_EQ(from_child.read_line(), "ready");
        kill(getpid(), signal);
    });
    const child_end end = run_child(options, signals, never);
    sender.join();
    EXPECT_EQ(end.exit_code(), 3);
}

INSTANTIATE_TEST_SUITE_P(Process, Signals, ::testing::Values(SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2),
                         [](const auto &each) { return std::string(sigabbrev_np(each.param)); });

TEST(Process, second_interrupt_kills) {
    std::signal(SIGINT, SIG_DFL);
    signal_queue signals;
    stop_event never;
    message_pipe from_child;
    child_options options;
    options.command = {"sh", "-c",
                       "trap 'echo once >&" + from_child.write_end() + "' INT; echo ready >&" + from_child.write_end() +
                           "; while :; do sleep 1; done"};
    std::thread sender([&] {
        from_child.read_line();
        kill(getpid(), SIGINT);
        EXPECT_EQ(from_child.read_line(), "once");
        kill(getpid(), SIGINT);
    });
    const child_end end = run_child(options, signals, never);
    sender.join();
    EXPECT_EQ(end.exit_code(), 128 + SIGKILL);
}

TEST(Process, signal_before_the_start_keeps_the_command_from_running) {
    signal_queue signals;
    stop_event never;
    const std::string trace = ::testing::TempDir() + "idem-cli-ran";
    std::filesystem::remove(trace);
    kill(getpid(), SIGTERM);
    child_options options;
    options.command = {"touch", trace};
    const child_end end = run_child(options, signals, never);
    EXPECT_EQ(end.what, how::never_attempted);
    EXPECT_EQ(end.exit_code(), 128 + SIGTERM);
    EXPECT_FALSE(std::filesystem::exists(trace));
}

TEST(Process, stop_sends_term_then_kill_to_the_whole_group) {
    for (const bool stubborn : {false, true}) {
        signal_queue signals;
        stop_event stop;
        message_pipe from_child;
        child_options options;
        options.grace = stubborn ? std::chrono::milliseconds(200) : std::chrono::minutes(1);
        options.command = {"sh", "-c",
                           std::string(stubborn ? "trap '' TERM; " : "") + "sleep 60 & echo $! >&" + from_child.write_end() +
                               "; wait"};
        pid_t grandchild = 0;
        std::thread ringer([&] {
            grandchild = std::stoi(from_child.read_line());
            stop.set();
        });
        const child_end end = run_child(options, signals, stop);
        ringer.join();
        EXPECT_TRUE(end.stopped);
        EXPECT_EQ(end.exit_code(), 128 + (stubborn ? SIGKILL : SIGTERM));
        EXPECT_TRUE(ends(grandchild));
    }
}

TEST(Process, child_dies_with_its_runner) {
    message_pipe from_child;
    const pid_t runner = fork();
    if (runner == 0) {
        shell("echo $$ >&" + from_child.write_end() + "; exec sleep 60");
        _exit(0);
    }
    const int child = std::stoi(from_child.read_line());
    kill(runner, SIGKILL);
    waitpid(runner, nullptr, 0);
    EXPECT_TRUE(ends(child));
}

TEST(Process, nobody_listening_does_not_end_the_command) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const int saved = dup(1);
    dup2(fds[1], 1);
    close(fds[1]);
    close(fds[0]);
    const child_end end = shell("head -c 300000 /dev/zero && exit 5", true);
    dup2(saved, 1);
    close(saved);
    EXPECT_EQ(end.exit_code(), 5);
    EXPECT_EQ(end.out.size, 300000u);
}

} // namespace
} // namespace idem::cli
