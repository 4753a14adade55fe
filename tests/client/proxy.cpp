#include "proxy.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace test {

namespace {

using clock = std::chrono::steady_clock;

[[noreturn]] void give_up(const std::string &what) { throw std::runtime_error("proxy: " + what + ": " + std::strerror(errno)); }

std::string environment(const char *name, const std::string &otherwise) {
    const char *value = std::getenv(name);
    return value && *value ? value : otherwise;
}

int connect_to(const std::string &path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        throw std::runtime_error("proxy: the path of the server's socket is too long");
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

bool send_all(int fd, const std::string &data) {
    for (std::size_t at = 0; at < data.size();) {
        const ssize_t sent = send(fd, data.data() + at, data.size() - at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += static_cast<std::size_t>(sent);
    }
    return true;
}

} // namespace

std::string to_string(const cut &where) {
    return std::string(where.when == moment::before ? "before " : "after ") +
           (where.by == side::frontend ? "frontend" : "backend") + " message " + std::to_string(where.nth) +
           (where.unnoticed.count() > 0 ? ", unnoticed" : "");
}

proxy::proxy(const std::string &upstream)
    : upstream_((upstream.empty() ? environment("PGHOST", "/var/run/postgresql") : upstream) + "/.s.PGSQL." +
                (upstream.empty() ? environment("PGPORT", "5432") : "5432")) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr *>(&address), length) != 0 || listen(listener_, 64) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr *>(&address), &length) != 0 || pipe(wake_) != 0)
        give_up("could not listen");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
}

proxy::~proxy() {
    stopping_ = true;
    wake();
    thread_.join();
    for (const int fd : {listener_, wake_[0], wake_[1]})
        close(fd);
}

std::string proxy::dsn() const {
    return "host=127.0.0.1 port=" + std::to_string(port_) + " sslmode=disable gssencmode=disable";
}

void proxy::arm(const cut &where) {
    const std::lock_guard lock(lock_);
    armed_ = where;
    reached_ = closed_ = false;
    for (std::string &each : seen_)
        each.clear();
}

void proxy::count() {
    const std::lock_guard lock(lock_);
    armed_.reset();
    reached_ = closed_ = false;
    for (std::string &each : seen_)
        each.clear();
}

bool proxy::has_cut() const {
    const std::lock_guard lock(lock_);
    return closed_;
}

std::string proxy::seen(side by) const {
    const std::lock_guard lock(lock_);
    return seen_[static_cast<int>(by)];
}

void proxy::cut_all() {
    cutting_all_ = true;
    wake();
    while (cutting_all_)
        std::this_thread::yield();
}

void proxy::refuse(bool refusing) { refusing_ = refusing; }

void proxy::stall(bool stalling) { stalling_ = stalling; }

void proxy::wake() {
    const char byte = 0;
    if (write(wake_[1], &byte, 1) != 1)
        give_up("could not wake the thread");
}

void proxy::close_client(link &of) {
    if (of.client >= 0)
        close(of.client);
    of.client = -1;
}

void proxy::close_link(link &of) {
    close_client(of);
    if (of.server >= 0)
        close(of.server);
    of.server = -1;
}

void proxy::accept_one() {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0)
        return;
    const int on = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int server = refusing_ ? -1 : connect_to(upstream_);
    if (server < 0) {
        close(client);
        return;
    }
    links_.push_back(
        {client, server, {client, server, side::frontend, false, {}}, {server, client, side::backend, true, {}}, {}});
}

// False: the link is to be closed, or is closed already.
bool proxy::pass(link &of, stream &through, const std::string &message, char type) {
    std::optional<cut> here;
    {
        const std::lock_guard lock(lock_);
        if (!reached_) {
            std::string &seen = seen_[static_cast<int>(through.by)];
            seen += type;
            if (armed_ && armed_->by == through.by && armed_->nth == static_cast<int>(seen.size())) {
                here = armed_;
                reached_ = true;
            }
        }
    }
    of.cut_here = of.cut_here || here;
    if (here && here->victim != 0 && here->when == moment::before)
        kill(here->victim, SIGKILL);
    if (!(here && here->when == moment::before) && !send_all(through.to, message))
        return false;
    if (!here)
        return true;
    if (here->victim != 0 && here->when == moment::after)
        kill(here->victim, SIGKILL);
    if (here->unnoticed.count() == 0)
        return false;
    const std::lock_guard lock(lock_);
    close_client(of);
    closed_ = true;
    of.hang_up = clock::now() + here->unnoticed;
    return true;
}

bool proxy::pump(link &of, stream &through) {
    char buffer[65536];
    const ssize_t got = recv(through.from, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0)
        return false;
    if (of.client < 0)
        return true; // dropped
    through.pending.append(buffer, static_cast<std::size_t>(got));
    for (;;) {
        // A type byte, except in the first packet of a client; then a length that includes itself.
        const std::size_t head = through.started ? 1 : 0;
        if (through.pending.size() < head + 4)
            return true;
        std::uint32_t length;
        std::memcpy(&length, through.pending.data() + head, sizeof length);
        const std::size_t whole = head + ntohl(length);
        if (through.pending.size() < whole)
            return true;
        const std::string message = through.pending.substr(0, whole);
        const char type = through.started ? message[0] : '^';
        through.pending.erase(0, whole);
        through.started = true;
        if (!pass(of, through, message, type))
            return false;
        if (of.client < 0)
            return true;
    }
}

void proxy::serve() {
    while (!stopping_) {
        if (stalling_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            continue;
        }
        std::vector<pollfd> sockets{{listener_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
        int timeout = -1;
        for (const link &each : links_) {
            sockets.push_back({each.client, POLLIN, 0}); // poll skips negative descriptors
            sockets.push_back({each.server, POLLIN, 0});
            if (each.hang_up) {
                const auto left = std::chrono::ceil<std::chrono::milliseconds>(*each.hang_up - clock::now()).count();
                const int wait = static_cast<int>(std::max<decltype(left)>(left, 0));
                timeout = timeout < 0 ? wait : std::min(timeout, wait);
            }
        }
        if (poll(sockets.data(), sockets.size(), timeout) < 0 && errno != EINTR)
            std::abort();
        if (sockets[1].revents != 0) {
            char buffer[64];
            static_cast<void>(!read(wake_[0], buffer, sizeof buffer));
        }
        auto ready = sockets.begin() + 2;
        for (auto each = links_.begin(); each != links_.end(); ready += 2) {
            bool open = !cutting_all_;
            if (open && each->client >= 0 && ready[0].revents != 0)
                open = pump(*each, each->up);
            if (open && ready[1].revents != 0)
                open = pump(*each, each->down);
            if (each->hang_up && clock::now() >= *each->hang_up)
                open = false;
            if (open)
                ++each;
            else {
                const std::lock_guard lock(lock_);
                close_link(*each);
                closed_ = closed_ || each->cut_here;
                each = links_.erase(each);
            }
        }
        cutting_all_ = false;
        if (sockets[0].revents != 0)
            accept_one();
    }
    for (link &each : links_)
        close_link(each);
}

} // namespace test
