// Lease locks in Redis: pairs of taking and freeing per second.
//
//   idem-bench-redis SOCKET CLIENTS THREADS SECONDS
//
// Every client takes and frees one lock after the other, each under a name nobody else uses: SET name nonce NX PX 30000, then a
// script, loaded beforehand, that deletes the name if it still has the nonce. A client waits for each answer.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr char kCompareAndDelete[] =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

std::string command(std::initializer_list<std::string> words) {
    std::string text = "*" + std::to_string(words.size()) + "\r\n";
    for (const auto &word : words)
        text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    return text;
}

class Client {
  public:
    Client(const char *path, int number) : number_(number), fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (fd_ < 0 || std::strlen(path) >= sizeof address.sun_path)
            throw std::runtime_error("could not open a socket");
        std::strcpy(address.sun_path, path);
        if (connect(fd_, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0)
            throw std::runtime_error(std::string("could not connect: ") + std::strerror(errno));
        send(command({"SCRIPT", "LOAD", kCompareAndDelete}));
        // $40\r\n<40 hexadecimal digits>\r\n
        const auto answer = receive();
        if (answer.size() != 47)
            throw std::runtime_error("the script was not loaded: " + answer);
        script_ = answer.substr(5, 40);
    }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;
    ~Client() { close(fd_); }

    int fd() const { return fd_; }
    long pairs() const { return pairs_; }

    void take() {
        name_ = "lock:" + std::to_string(number_) + ":" + std::to_string(pairs_ % 12500);
        nonce_ = std::to_string(bits_());
        send(command({"SET", name_, nonce_, "NX", "PX", "30000"}));
        taking_ = true;
    }

    // The answer has come: frees what was taken; false: the pair is complete.
    bool go_on() {
        const auto answer = receive();
        if (answer != (taking_ ? "+OK\r\n" : ":1\r\n"))
            throw std::runtime_error("unexpected answer: " + answer);
        if (!taking_) {
            pairs_++;
            return false;
        }
        send(command({"EVALSHA", script_, "1", name_, nonce_}));
        taking_ = false;
        return true;
    }

  private:
    void send(const std::string &text) {
        if (write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
            throw std::runtime_error("could not send");
    }

    // Answers are short, and written at once.
    std::string receive() {
        char buffer[256];
        const auto size = read(fd_, buffer, sizeof buffer);
        if (size <= 0)
            throw std::runtime_error("the server has gone");
        return {buffer, static_cast<std::size_t>(size)};
    }

    int number_, fd_;
    std::mt19937_64 bits_{std::random_device{}()};
    std::string script_, name_, nonce_;
    bool taking_ = false;
    long pairs_ = 0;
};

using Clients = std::vector<std::unique_ptr<Client>>;

void run_until(Clock::time_point deadline, Clients &clients) {
    std::vector<pollfd> waiting;
    for (const auto &client : clients) {
        client->take();
        waiting.push_back({client->fd(), POLLIN, 0});
    }
    for (auto left = clients.size(); left > 0;) {
        poll(waiting.data(), waiting.size(), -1);
        for (std::size_t i = 0; i < waiting.size(); i++) {
            if (waiting[i].revents == 0 || clients[i]->go_on())
                continue;
            if (Clock::now() < deadline) {
                clients[i]->take();
            } else {
                waiting[i].fd = -1;
                left--;
            }
        }
    }
}

void run(int argc, char **argv) {
    if (argc != 5)
        throw std::runtime_error("usage: idem-bench-redis SOCKET CLIENTS THREADS SECONDS");
    const int client_count = std::atoi(argv[2]), thread_count = std::atoi(argv[3]);
    std::vector<Clients> shares(static_cast<std::size_t>(thread_count));
    for (int i = 0; i < client_count; i++)
        shares[static_cast<std::size_t>(i % thread_count)].push_back(std::make_unique<Client>(argv[1], i));

    std::vector<std::exception_ptr> failures(shares.size());
    std::vector<std::thread> threads;
    const auto start = Clock::now();
    const auto deadline = start + std::chrono::seconds(std::atoi(argv[4]));
    for (std::size_t i = 0; i < shares.size(); i++)
        threads.emplace_back([&, i] {
            try {
                run_until(deadline, shares[i]);
            } catch (...) {
                failures[i] = std::current_exception();
            }
        });
    for (auto &thread : threads)
        thread.join();
    for (const auto &failure : failures)
        if (failure)
            std::rethrow_exception(failure);

    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    long pairs = 0;
    for (const auto &share : shares)
        for (const auto &client : share)
            pairs += client->pairs();
    std::printf("%.1f\n", static_cast<double>(pairs) / seconds);
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(argc, argv);
    } catch (const std::exception &error) {
        std::cerr << "idem-bench-redis: " << error.what() << '\n';
        return 1;
    }
}
