// A broker delivers each message at least once, in any order, to three workers. One of them sometimes fails in the middle of
// its work, and its message is delivered again. Each message has its effect once.
//
// Runs against any database that has the extension; libpq's environment (PGHOST, PGDATABASE …) names it.
#include <idem/idem.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kMessages = 100;

constexpr const char *kTables = R"(
    DROP SCHEMA IF EXISTS consumer_example CASCADE;
    CREATE SCHEMA consumer_example;
    CREATE TABLE consumer_example.account (balance int NOT NULL);
    CREATE TABLE consumer_example.mail (message text NOT NULL);
    INSERT INTO consumer_example.account VALUES (0);
)";

/// Delivers each message three times, in random order, and again while it is not acknowledged. Thread-safe.
class broker {
  public:
    explicit broker(const std::string &run) {
        for (int i = 0; i < 3 * kMessages; ++i)
            queue_.push_back(run + " " + std::to_string(i % kMessages));
        std::shuffle(queue_.begin(), queue_.end(), std::mt19937{4711});
    }
    std::optional<std::string> take() {
        const std::lock_guard lock(lock_);
        if (queue_.empty())
            return std::nullopt;
        std::string first = queue_.front();
        queue_.pop_front();
        return first;
    }
    void give_back(const std::string &message) {
        const std::lock_guard lock(lock_);
        queue_.push_back(message);
    }

  private:
    std::mutex lock_; // guards queue_
    std::deque<std::string> queue_;
};

std::string value(pqxx::transaction_base &sql, const char *query) { return sql.exec(query)[0][0].c_str(); }

} // namespace

int main() {
    pqxx::connection setup{""};
    pqxx::nontransaction sql{setup};
    sql.exec(kTables);
    const std::string run = value(sql, "SELECT pg_catalog.gen_random_uuid()");
    idem::client db;

    // Message by message.
    broker queue{run};
    std::atomic<int> handled = 0, seen = 0, failed = 0;
    const auto work = [&] {
        while (const std::optional<std::string> message = queue.take()) {
            try {
                const bool first = idem::consume(db, "bookkeeping", *message, [&](idem::transaction &tx) {
                    tx.exec("UPDATE consumer_example.account SET balance = balance + 1");
                    if (std::random_device{}() % 10 == 0)
                        throw std::runtime_error("the worker stumbled");
                });
                ++(first ? handled : seen);
            } catch (const std::exception &) {
                ++failed;
                queue.give_back(*message);
            }
        }
    };
    std::vector<std::thread> workers;
    for (int i = 0; i < 3; ++i)
        workers.emplace_back(work);
    for (std::thread &each : workers)
        each.join();
    const std::string balance = value(sql, "SELECT balance FROM consumer_example.account");
    std::cout << handled << " messages handled, " << seen << " seen before, " << failed << " failures; the balance is "
              << balance << "\n";

    // Another consumer of the same messages, in batches.
    broker copy{run};
    std::size_t mailed = 0;
    for (std::vector<std::string> batch(50); !batch.empty();) {
        batch.clear();
        while (batch.size() < 50) {
            const std::optional<std::string> message = copy.take();
            if (!message)
                break;
            batch.push_back(*message);
        }
        const auto fresh =
            idem::consume_many(db, "mailing", batch, [&](idem::transaction &tx, const std::vector<std::string> &fresh_ones) {
                for (const std::string &message : fresh_ones)
                    tx.exec("INSERT INTO consumer_example.mail VALUES (" + tx.quote(message) + ")");
            });
        mailed += fresh.size();
    }
    const std::string mails = value(sql, "SELECT count(DISTINCT message) FROM consumer_example.mail");
    std::cout << mailed << " mails to " << mails << " people\n";

    const bool right = handled == kMessages && seen == 2 * kMessages && balance == std::to_string(kMessages) &&
                       mailed == kMessages && mails == std::to_string(kMessages);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
