#include "server.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <sys/wait.h>

#include "clock.hpp"
#include "connection.hpp"

namespace chaos {

namespace {

constexpr Nanoseconds kLongestStart = 60 * kSecond;

std::string environment(const char *name) {
    const char *value = std::getenv(name);
    return value != nullptr ? value : "";
}

// As the user that may run a server. `command`: for bash, in which $bin is where the server's programs are.
int run_as_server(const std::string &command) {
    const std::string script = "cd / && source \"$CHAOS_LIB\" && bin=$(\"$PG_CONFIG\" --bindir) && as_server " + command;
    setenv("CHAOS_SCRIPT", script.c_str(), 1);
    setenv("CHAOS_LIB", IDEM_SOURCE_DIR "/scripts/lib.sh", 1);
    const int status = std::system("exec bash -c \"$CHAOS_SCRIPT\" </dev/null >/dev/null 2>&1");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

bool contains(const std::string &line, const char *what) { return line.find(what) != std::string::npos; }

// A process that has closed its connection, on its way out, and is then told to quit because another one crashed, tries to say
// so to its client, and the server has no better code for that.
bool is_farewell_to_nobody(const std::string &line) {
    return contains(line, " LOG:  could not send data to client: Bad file descriptor");
}

bool is_complaint(const std::string &line) {
    if (is_farewell_to_nobody(line))
        return false;
    return contains(line, "PANIC:") || contains(line, "TRAP:") || contains(line, " XX0") ||
           (contains(line, " was terminated by signal ") && !contains(line, " by signal 9"));
}

} // namespace

Server::Server() : directory_(environment("PGHOST")), data_(directory_ + "/data") {
    if (directory_.empty() || directory_[0] != '/' || !std::filesystem::exists(data_ + "/PG_VERSION"))
        throw std::runtime_error("PGHOST is not the directory of a cluster of scripts/cluster.sh");
}

std::string Server::dsn(const std::string &application) const {
    return "host=" + directory_ + " port=5432 user=postgres dbname=postgres connect_timeout=10 application_name=" + application;
}

pid_t Server::postmaster() const {
    std::ifstream file(data_ + "/postmaster.pid");
    pid_t pid = 0;
    file >> pid;
    return pid;
}

// Every process of the server, and nothing else, works in its data directory.
std::vector<pid_t> Server::processes() const {
    std::vector<pid_t> found;
    std::error_code error;
    for (const auto &each : std::filesystem::directory_iterator("/proc", error)) {
        const std::string name = each.path().filename();
        if (name.find_first_not_of("0123456789") != std::string::npos)
            continue;
        if (std::filesystem::read_symlink(each.path() / "cwd", error) == data_)
            found.push_back(static_cast<pid_t>(std::stol(name)));
    }
    return found;
}

void Server::kill() {
    const pid_t pid = postmaster();
    for (const pid_t each : processes())
        if (each == pid)
            ::kill(pid, SIGKILL);
    const Nanoseconds until = now() + kLongestStart;
    for (std::vector<pid_t> left = processes(); !left.empty(); left = processes()) {
        if (now() > until)
            throw std::runtime_error("processes of the server outlive SIGKILL");
        for (const pid_t each : left)
            ::kill(each, SIGKILL);
        sleep_for(2 * kMillisecond);
    }
    // The next postmaster does not start as long as a process has this number, be it a dead one that nobody has reaped.
    while (::kill(pid, 0) == 0 && now() < until)
        sleep_for(kMillisecond);
}

void Server::start() {
    if (run_as_server("\"$bin/pg_ctl\" start --silent --wait --timeout=60 --pgdata='" + data_ + "' --log='" + directory_ +
                      "/server.log'") != 0)
        throw std::runtime_error("the server did not start: see " + directory_ + "/server.log");
    await();
}

void Server::await() {
    const Nanoseconds until = now() + kLongestStart;
    for (;;) {
        Connection connection;
        if (connection.open(dsn("chaos-nemesis")) && connection.run("SELECT 1").ok())
            return;
        if (now() > until)
            throw std::runtime_error("the server takes no connections: see " + directory_ + "/server.log");
        sleep_for(5 * kMillisecond);
    }
}

std::vector<std::string> Server::complaints() {
    std::vector<std::string> found;
    std::ifstream log(directory_ + "/server.log");
    log.seekg(read_);
    for (std::string line; std::getline(log, line);) {
        if (log.eof())
            break; // not yet whole
        read_ = log.tellg();
        if (is_complaint(line))
            found.push_back(line);
    }
    return found;
}

} // namespace chaos
