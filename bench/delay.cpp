// A slow network in front of a Unix socket: bytes are handed on a fixed time after they came in, in both directions.
//
//   idem-bench-delay LISTEN_SOCKET SERVER MICROSECONDS_EACH_WAY
//
// SERVER is a socket's path, or HOST:PORT. Only the delay is simulated, not bandwidth: what a client pipelines arrives as close
// together as it was sent. Runs until it gets SIGTERM, and prints the round trips that it saw: how often a client sent
// something after it had an answer.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

sockaddr_un address_of(const char *path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(path) >= sizeof address.sun_path)
        throw std::runtime_error(std::string("socket path is too long: ") + path);
    std::strcpy(address.sun_path, path);
    return address;
}

class Socket {
  public:
    explicit Socket(int fd) : fd_(fd) {
        if (fd < 0)
            throw std::runtime_error(std::string("could not open a socket: ") + std::strerror(errno));
    }
    Socket(const Socket &) = delete;
    Socket &operator=(const Socket &) = delete;
    ~Socket() { close(fd_); }

    int fd() const { return fd_; }

  private:
    int fd_;
};

std::unique_ptr<Socket> new_socket() { return std::make_unique<Socket>(socket(AF_UNIX, SOCK_STREAM, 0)); }

std::unique_ptr<Socket> listen_at(const char *path) {
    auto listener = new_socket();
    const auto address = address_of(path);
    unlink(path);
    if (bind(listener->fd(), reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0 ||
        listen(listener->fd(), 128) != 0)
        throw std::runtime_error(std::string("could not listen at ") + path + ": " + std::strerror(errno));
    return listener;
}

// An address of digits, as 127.0.0.1.
std::unique_ptr<Socket> connect_over_tcp(const std::string &host, const std::string &port) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0)
        throw std::runtime_error("\"" + host + ":" + port + "\" is not an address and a port");
    const std::unique_ptr<addrinfo, void (*)(addrinfo *)> address(found, freeaddrinfo);
    auto server = std::make_unique<Socket>(socket(address->ai_family, SOCK_STREAM, 0));
    if (connect(server->fd(), address->ai_addr, address->ai_addrlen) != 0)
        throw std::runtime_error("could not connect to " + host + ":" + port + ": " + std::strerror(errno));
    const int on = 1;
    setsockopt(server->fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return server;
}

std::unique_ptr<Socket> connect_to(const char *path) {
    if (const char *colon = std::strrchr(path, ':'); path[0] != '/' && colon)
        return connect_over_tcp(std::string(path, colon), colon + 1);
    auto server = new_socket();
    const auto address = address_of(path);
    if (connect(server->fd(), reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0)
        throw std::runtime_error(std::string("could not connect to ") + path + ": " + std::strerror(errno));
    return server;
}

// One direction of one connection.
class Wire {
  public:
    Wire(int from, int to, std::chrono::microseconds delay) : from_(from), to_(to), delay_(delay) {}

    // False: the sender is gone.
    bool take_in() {
        char buffer[65536];
        const ssize_t size = recv(from_, buffer, sizeof buffer, MSG_DONTWAIT);
        if (size > 0)
            in_transit_.push_back({Clock::now() + delay_, std::string(buffer, static_cast<std::size_t>(size))});
        return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
    }

    // False: the receiver is gone. Both ends are on this machine and read what they asked for, so a send may block.
    bool hand_on_what_is_due() {
        while (!in_transit_.empty() && in_transit_.front().due <= Clock::now()) {
            const std::string &bytes = in_transit_.front().bytes;
            for (std::size_t sent = 0; sent < bytes.size();) {
                const ssize_t size = send(to_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
                if (size < 0)
                    return false;
                sent += static_cast<std::size_t>(size);
            }
            in_transit_.pop_front();
        }
        return true;
    }

    std::optional<Clock::time_point> next_due() const {
        return in_transit_.empty() ? std::nullopt : std::optional(in_transit_.front().due);
    }

    int from() const { return from_; }

  private:
    struct Packet {
        Clock::time_point due;
        std::string bytes;
    };

    int from_, to_;
    std::chrono::microseconds delay_;
    std::deque<Packet> in_transit_;
};

struct Connection {
    std::unique_ptr<Socket> client, server;
    Wire request, reply;
    bool client_has_asked = false;

    Connection(std::unique_ptr<Socket> client_socket, std::unique_ptr<Socket> server_socket, std::chrono::microseconds delay)
        : client(std::move(client_socket)), server(std::move(server_socket)), request(client->fd(), server->fd(), delay),
          reply(server->fd(), client->fd(), delay) {}

    // False: one side is gone.
    bool take_in(bool from_client, bool from_server, long &round_trips) {
        if (from_client && !client_has_asked)
            round_trips++;
        client_has_asked = (client_has_asked || from_client) && !from_server;
        return (!from_client || request.take_in()) && (!from_server || reply.take_in());
    }
};

using Connections = std::list<Connection>;

volatile std::sig_atomic_t stopped = 0;

void wait_for_bytes_or_due_time(std::vector<pollfd> &sockets, const Connections &connections) {
    // SIGTERM comes only here (main blocks it), or it could be missed.
    sigset_t none;
    sigemptyset(&none);
    std::optional<Clock::time_point> due;
    for (const auto &connection : connections)
        for (const Wire *wire : {&connection.request, &connection.reply})
            if (const auto next = wire->next_due(); next && (!due || *next < *due))
                due = next;
    if (!due) {
        ppoll(sockets.data(), sockets.size(), nullptr, &none);
        return;
    }
    const auto left = std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(*due - Clock::now()));
    const timespec timeout{0, static_cast<long>(left.count())};
    ppoll(sockets.data(), sockets.size(), &timeout, &none);
}

// Returns the round trips of all connections, once it was told to stop.
long serve(const char *listen_path, const char *server_path, std::chrono::microseconds delay) {
    const auto listener = listen_at(listen_path);
    Connections connections;
    std::vector<pollfd> sockets;
    long round_trips = 0;
    while (!stopped) {
        sockets.assign(1, {listener->fd(), POLLIN, 0});
        for (const auto &connection : connections) {
            sockets.push_back({connection.request.from(), POLLIN, 0});
            sockets.push_back({connection.reply.from(), POLLIN, 0});
        }
        wait_for_bytes_or_due_time(sockets, connections);

        std::size_t slot = 1;
        for (auto connection = connections.begin(); connection != connections.end(); slot += 2) {
            const bool open = connection->take_in(sockets[slot].revents, sockets[slot + 1].revents, round_trips) &&
                              connection->request.hand_on_what_is_due() && connection->reply.hand_on_what_is_due();
            connection = open ? std::next(connection) : connections.erase(connection);
        }
        if (sockets[0].revents)
            connections.emplace_back(std::make_unique<Socket>(accept(listener->fd(), nullptr, nullptr)),
                                     connect_to(server_path), delay);
    }
    return round_trips;
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc != 4)
            throw std::runtime_error("usage: idem-bench-delay LISTEN_SOCKET SERVER MICROSECONDS_EACH_WAY");
        // Timers are late by 50 microseconds otherwise, a fifth of the delay asked for.
        prctl(PR_SET_TIMERSLACK, 1L);
        // Who started it may be killed.
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        sigset_t termination;
        sigemptyset(&termination);
        sigaddset(&termination, SIGTERM);
        sigprocmask(SIG_BLOCK, &termination, nullptr);
        std::signal(SIGTERM, [](int) { stopped = 1; });
        std::printf("%ld\n", serve(argv[1], argv[2], std::chrono::microseconds(std::atoi(argv[3]))));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "idem-bench-delay: %s\n", error.what());
        return 1;
    }
}
