// Whole requests by the C++ client, beside what one writes with libpqxx alone.
//
//   idem-bench-once fresh|duplicate ROUNDS SECONDS THREADS
//
// fresh: claim, business row, stored response; `by_hand` is the transaction of a careful engineer, every statement prepared:
// BEGIN, claim, order, response, COMMIT. duplicate: requests that were done before; `prepared_select` reads the stored response
// and does nothing else. One line per round and contender: contender, round, requests per second, p99 in microseconds.
#include <idem/once.hpp>
#include <idem/pqxx_compat.hpp>

#include <pqxx/pqxx>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using idem::detail::exec_prepared;
using Clock = std::chrono::steady_clock;

constexpr int kStored = 10'000;
constexpr const char *kOrder = "INSERT INTO orders (customer_id, amount) VALUES ($1, $2) RETURNING id";

std::string stored_key(std::uint64_t n) { return "stored-" + std::to_string(n % kStored); }

std::string order_response(const std::string &id) { return R"({"order": )" + id + R"(, "status": "accepted"})"; }

// One request after the other, by one thread.
struct Session {
    virtual ~Session() = default;
    virtual void fresh(const std::string &key) = 0;
    virtual void duplicate(const std::string &key) = 0;
};

void expect(bool right, const char *who) {
    if (!right)
        throw std::runtime_error(std::string(who) + " did not do its work");
}

struct Once final : Session {
    idem::client &db;
    explicit Once(idem::client &given) : db(given) {}

    void fresh(const std::string &key) override {
        const idem::answer done = idem::once(db, key, [](idem::transaction &tx) {
            return idem::response{201, order_response(exec_prepared(tx, "order", 17, "12.50")[0][0].c_str())};
        });
        expect(!done.replayed, "once");
    }
    void duplicate(const std::string &key) override {
        const idem::answer done = idem::once(db, key, [](idem::transaction &) {});
        expect(done.replayed && done.response, "once");
    }
};

struct OnceStatement final : Session {
    idem::client &db;
    explicit OnceStatement(idem::client &given) : db(given) {}

    void fresh(const std::string &key) override {
        expect(!idem::once_statement(db, key, kOrder, {"17", "12.50"}).replayed, "once_statement");
    }
    void duplicate(const std::string &key) override {
        expect(idem::once_statement(db, key, kOrder, {"17", "12.50"}).replayed, "once_statement");
    }
};

struct ByHand final : Session {
    pqxx::connection connection;

    ByHand() {
        connection.prepare("claim",
                           "INSERT INTO raw_keys (scope, key, expires_at) VALUES ('', $1, now() + interval '24 hours') "
                           "ON CONFLICT (scope, key) DO NOTHING");
        connection.prepare("order", kOrder);
        connection.prepare("respond", "UPDATE raw_keys SET status_code = $2, response = $3 WHERE scope = '' AND key = $1");
        connection.prepare("replay", "SELECT status_code, response FROM raw_keys WHERE scope = '' AND key = $1");
    }
    void fresh(const std::string &key) override {
        pqxx::work tx(connection);
        expect(exec_prepared(tx, "claim", key).affected_rows() == 1, "by_hand");
        const std::string id = exec_prepared(tx, "order", 17, "12.50")[0][0].c_str();
        exec_prepared(tx, "respond", key, 201, order_response(id));
        tx.commit();
    }
    void duplicate(const std::string &key) override {
        pqxx::work tx(connection);
        expect(exec_prepared(tx, "claim", key).affected_rows() == 0, "by_hand");
        expect(!exec_prepared(tx, "replay", key)[0][1].is_null(), "by_hand");
        tx.commit();
    }
};

struct PreparedSelect final : Session {
    pqxx::connection connection;
    pqxx::nontransaction autocommit{connection};

    PreparedSelect() {
        connection.prepare("replay", "SELECT status_code, response FROM raw_keys WHERE scope = '' AND key = $1");
    }
    void fresh(const std::string &) override {}
    void duplicate(const std::string &key) override {
        expect(!exec_prepared(autocommit, "replay", key)[0][1].is_null(), "prepared_select");
    }
};

struct Contender {
    const char *name;
    std::function<std::unique_ptr<Session>()> session;
};

struct Outcome {
    double per_second, p99;
};

// Threads warm up on requests of their own, start together, and stop after so many seconds.
Outcome one_run(const Contender &contender, bool fresh, double seconds, int thread_count) {
    static std::atomic<std::uint64_t> next{std::random_device{}() * 1'000'000ULL};
    std::atomic<int> ready = 0;
    std::atomic<bool> go = false, stop = false;
    std::vector<std::vector<double>> latencies(thread_count);
    std::vector<std::exception_ptr> failures(thread_count);
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i)
        threads.emplace_back([&, i] {
            try {
                const auto session = contender.session();
                const auto request = [&] {
                    const std::uint64_t n = next++;
                    fresh ? session->fresh("fresh-" + std::to_string(n)) : session->duplicate(stored_key(n * 7919));
                };
                for (int j = 0; j < 20; ++j)
                    request();
                ++ready;
                while (!go)
                    std::this_thread::yield();
                while (!stop) {
                    const auto start = Clock::now();
                    request();
                    latencies[i].push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
                }
            } catch (...) {
                failures[i] = std::current_exception();
                ++ready;
            }
        });
    while (ready < thread_count)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto start = Clock::now();
    go = true;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    for (std::thread &each : threads)
        each.join();
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    for (const std::exception_ptr &each : failures)
        if (each)
            std::rethrow_exception(each);
    std::vector<double> all;
    for (const std::vector<double> &each : latencies)
        all.insert(all.end(), each.begin(), each.end());
    expect(!all.empty(), contender.name);
    std::sort(all.begin(), all.end());
    return {static_cast<double>(all.size()) / elapsed, all[(all.size() - 1) * 99 / 100]};
}

// What duplicates are duplicates of, for every contender.
void store_responses(idem::client &db) {
    pqxx::connection connection;
    pqxx::work tx(connection);
    tx.exec("INSERT INTO raw_keys (scope, key, status_code, response, expires_at) "
            "SELECT '', 'stored-' || n, 201, jsonb_build_object('order', n, 'status', 'accepted'), now() + interval '1 day' "
            "FROM generate_series(0, " +
            std::to_string(kStored - 1) + ") n ON CONFLICT DO NOTHING");
    tx.exec("SELECT (SELECT outcome FROM " + db.schema() +
            ".idem_execute('stored-' || n, 'SELECT $1::int AS \"order\", ''accepted'' AS status', jsonb_build_array(n::text))) "
            "FROM generate_series(0, " +
            std::to_string(kStored - 1) + ") n");
    tx.commit();
}

void run(int argc, char **argv) {
    if (argc != 5)
        throw std::runtime_error("usage: idem-bench-once fresh|duplicate ROUNDS SECONDS THREADS");
    const bool fresh = std::string(argv[1]) == "fresh";
    const int thread_count = std::atoi(argv[4]);
    idem::client_options options;
    options.max_connections = static_cast<std::size_t>(thread_count);
    options.on_connect = [](idem::connection &connection) { connection.prepare("order", kOrder); };
    idem::client db(options);
    if (!fresh)
        store_responses(db);

    std::vector<Contender> contenders{{"once", [&] { return std::make_unique<Once>(db); }},
                                      {"once_statement", [&] { return std::make_unique<OnceStatement>(db); }}};
    if (!fresh)
        contenders.push_back({"prepared_select", [] { return std::make_unique<PreparedSelect>(); }});
    contenders.push_back({"by_hand", [] { return std::make_unique<ByHand>(); }});
    for (int round = 1; round <= std::atoi(argv[2]); ++round)
        for (const Contender &contender : contenders) {
            const Outcome outcome = one_run(contender, fresh, std::atof(argv[3]), thread_count);
            std::printf("%s\t%d\t%.1f\t%.1f\n", contender.name, round, outcome.per_second, outcome.p99);
            std::fflush(stdout);
        }
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(argc, argv);
    } catch (const std::exception &error) {
        std::cerr << "idem-bench-once: " << error.what() << '\n';
        return 1;
    }
}
