// How long a lock that is freed lies about until the next of those who wait for it has it.
//
//   idem-bench-handover ROUNDS MILLISECONDS WAITERS[,WAITERS...] CONTENDER...
//
// A CONTENDER is NAME=FILE or NAME=FILE,POLL_MS, where FILE has two statements, one that takes the lock :name and one that
// frees it (:fence is what the first returned), or NAME=redis:ADDRESS,POLL_MS. Without POLL_MS the server makes the caller
// wait; with it the caller asks again after so long, the first time after a random part of that.
//
// One holds the lock, for 2 ms, and WAITERS others wait. Whoever frees it waits again when another has got it, so that their
// number stays. The time is from just before the request to free it is sent until the next holder has its answer.
// The lock is "relay"; before, each client takes and frees one of its own, "relay-0" and so on.
// One line per waiters, round and contender: waiters, contender, round, p50, p99 and maximum in ms.
#include <hiredis/hiredis.h>
#include <idem/pqxx_compat.hpp>

#include <pqxx/pqxx>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using idem::detail::exec_prepared;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::chrono::milliseconds kHold{2};

std::uint64_t random_bits() {
    thread_local std::mt19937_64 bits{std::random_device{}()};
    return bits();
}

// A client's own way to one lock server. Not for two threads at once.
class Lock {
  public:
    virtual ~Lock() = default;
    // What the holder has to show; none: busy.
    virtual std::optional<std::string> take(const std::string &name) = 0;
    // False: it was not ours.
    virtual bool free(const std::string &name, const std::string &fence) = 0;
};

std::string replaced(std::string text, const std::string &word, const std::string &by) {
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += by.size())
        text.replace(at, word.size(), by);
    return text;
}

class PostgresLock : public Lock {
  public:
    explicit PostgresLock(const std::string &path) {
        std::ifstream file(path);
        std::string taking, freeing;
        if (!std::getline(file, taking, ';') || !std::getline(file, freeing, ';'))
            throw std::runtime_error("could not read two statements from " + path);
        uses_fence_ = freeing.find(":fence") != std::string::npos;
        connection_.prepare("take", replaced(taking, ":name", "$1"));
        connection_.prepare("free", replaced(replaced(freeing, ":name", "$1"), ":fence", "$2"));
    }

    std::optional<std::string> take(const std::string &name) override {
        const auto answer = exec_prepared(autocommit_, "take", name);
        if (answer.empty() || answer[0][0].is_null())
            return std::nullopt;
        return answer[0][0].as<std::string>();
    }

    bool free(const std::string &name, const std::string &fence) override {
        const auto answer =
            uses_fence_ ? exec_prepared(autocommit_, "free", name, fence) : exec_prepared(autocommit_, "free", name);
        return !answer.empty() && answer[0][0].as<bool>();
    }

  private:
    pqxx::connection connection_;
    pqxx::nontransaction autocommit_{connection_};
    bool uses_fence_;
};

class RedisLock : public Lock {
  public:
    // HOST:PORT, with the password in REDISCLI_AUTH if there is one, or a socket's path.
    explicit RedisLock(const std::string &address) : context_(connect(address), redisFree) {
        if (!context_ || context_->err)
            throw std::runtime_error("could not connect to Redis at " + address);
        if (const char *password = std::getenv("REDISCLI_AUTH"))
            ask("AUTH %s", password);
        script_ = ask("SCRIPT LOAD %s",
                      "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end")
                      ->str;
    }

    std::optional<std::string> take(const std::string &name) override {
        auto nonce = std::to_string(random_bits());
        if (ask("SET %s %s NX PX 30000", name.c_str(), nonce.c_str())->type == REDIS_REPLY_NIL)
            return std::nullopt;
        return nonce;
    }

    bool free(const std::string &name, const std::string &nonce) override {
        return ask("EVALSHA %s 1 %s %s", script_.c_str(), name.c_str(), nonce.c_str())->integer == 1;
    }

  private:
    static redisContext *connect(const std::string &address) {
        if (address.front() == '/')
            return redisConnectUnix(address.c_str());
        const auto colon = address.find(':');
        return redisConnect(address.substr(0, colon).c_str(), std::stoi(address.substr(colon + 1)));
    }

    using Reply = std::unique_ptr<redisReply, void (*)(void *)>;

    template <typename... Words> Reply ask(const char *format, Words... words) {
        Reply reply(static_cast<redisReply *>(redisCommand(context_.get(), format, words...)), freeReplyObject);
        if (!reply || reply->type == REDIS_REPLY_ERROR)
            throw std::runtime_error(std::string("Redis: ") + (reply ? reply->str : context_->errstr));
        return reply;
    }

    std::unique_ptr<redisContext, void (*)(redisContext *)> context_;
    std::string script_;
};

struct Contender {
    std::string name, where;
    std::chrono::milliseconds poll{0};

    explicit Contender(const std::string &argument) {
        const auto equals = argument.find('='), comma = argument.find(',');
        if (equals == std::string::npos)
            throw std::runtime_error("\"" + argument + "\" is not NAME=FILE or NAME=FILE,POLL_MS");
        name = argument.substr(0, equals);
        where = argument.substr(equals + 1, comma == std::string::npos ? comma : comma - equals - 1);
        if (comma != std::string::npos)
            poll = std::chrono::milliseconds(std::stoi(argument.substr(comma + 1)));
    }

    std::unique_ptr<Lock> connect() const {
        if (where.rfind("redis:", 0) == 0)
            return std::make_unique<RedisLock>(where.substr(6));
        return std::make_unique<PostgresLock>(where);
    }
};

// One lock that goes from hand to hand.
class Relay {
  public:
    Relay(const Contender &contender, int clients) : contender_(contender) {
        for (int i = 0; i < clients; i++) {
            auto &lock = locks_.emplace_back(contender.connect());
            // The first calls of a session load catalogs and libraries; that is no part of the question.
            const auto own = name_ + '-' + std::to_string(i);
            if (!lock->free(own, lock->take(own).value()))
                throw std::runtime_error(contender_.name + " could not free its own lock");
        }
    }

    // Sorted milliseconds.
    std::vector<double> run(std::chrono::milliseconds length) {
        std::vector<std::thread> threads;
        for (auto &lock : locks_)
            threads.emplace_back([this, &lock] {
                try {
                    take_part(*lock);
                } catch (...) {
                    const std::lock_guard guard(failure_mutex_);
                    failure_ = std::current_exception();
                    stop();
                    lock.reset(); // what it holds goes with its session
                }
            });
        std::this_thread::sleep_for(length);
        stop();
        for (auto &thread : threads)
            thread.join();
        if (failure_)
            std::rethrow_exception(failure_);
        if (latencies_.empty())
            throw std::runtime_error(contender_.name + " never changed hands");
        std::sort(latencies_.begin(), latencies_.end());
        return latencies_;
    }

  private:
    void take_part(Lock &lock) {
        while (!stopped_) {
            const auto fence = take_waiting(lock);
            const auto taken_at = Clock::now();
            if (!fence)
                return;
            if (holders_.fetch_add(1) != 0)
                throw std::runtime_error(contender_.name + " gave the lock to two");
            // Only the holder touches these two.
            if (!stopped_ && freed_at_ != Clock::time_point{})
                latencies_.push_back(Milliseconds(taken_at - freed_at_).count());
            const long turn = ++turns_;
            turns_.notify_all();
            std::this_thread::sleep_for(kHold);
            freed_at_ = Clock::now();
            holders_--;
            if (!lock.free(name_, *fence))
                throw std::runtime_error(contender_.name + " freed a lock that was not its own");
            if (!stopped_)
                turns_.wait(turn);
        }
    }

    // Nothing when all is over.
    std::optional<std::string> take_waiting(Lock &lock) const {
        std::chrono::microseconds pause = std::chrono::microseconds(contender_.poll) / 1000 * (random_bits() % 1000);
        for (;;) {
            auto fence = lock.take(name_);
            if (fence)
                return fence;
            if (contender_.poll.count() == 0)
                throw std::runtime_error(contender_.name + " gave up waiting");
            if (stopped_)
                return std::nullopt;
            std::this_thread::sleep_for(pause);
            pause = contender_.poll;
        }
    }

    // Whom the server makes wait gets the lock in turn, and then sees that all is over.
    void stop() {
        stopped_ = true;
        turns_++;
        turns_.notify_all();
    }

    const Contender &contender_;
    const std::string name_ = "relay";
    std::vector<std::unique_ptr<Lock>> locks_;
    std::vector<double> latencies_;
    Clock::time_point freed_at_{};
    std::atomic<int> holders_{0};
    std::atomic<long> turns_{0};
    std::atomic<bool> stopped_{false};
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
};

double part_of(const std::vector<double> &sorted, int percent) { return sorted[(sorted.size() - 1) * percent / 100]; }

void run(int argc, char **argv) {
    if (argc < 5)
        throw std::runtime_error("usage: idem-bench-handover ROUNDS MILLISECONDS WAITERS[,WAITERS...] CONTENDER...");
    const std::vector<Contender> contenders(argv + 4, argv + argc);
    std::istringstream list(argv[3]);
    for (std::string waiters; std::getline(list, waiters, ',');)
        for (int round = 1; round <= std::atoi(argv[1]); round++)
            for (const auto &contender : contenders) {
                const auto latencies =
                    Relay(contender, std::stoi(waiters) + 1).run(std::chrono::milliseconds(std::atoi(argv[2])));
                std::printf("%s\t%s\t%d\t%.3f\t%.3f\t%.3f\n", waiters.c_str(), contender.name.c_str(), round,
                            part_of(latencies, 50), part_of(latencies, 99), latencies.back());
                std::fflush(stdout);
            }
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(argc, argv);
    } catch (const std::exception &error) {
        std::cerr << "idem-bench-handover: " << error.what() << '\n';
        return 1;
    }
}
