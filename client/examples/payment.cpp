// A customer presses "pay" several times, several web servers receive the request, and one of them loses its connection to the
// database while it works. One payment is made, and every request gets the same answer.
//
// Runs against any database that has the extension; libpq's environment (PGHOST, PGDATABASE …) names it.
#include <idem/idem.hpp>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr const char *kTables = R"(
    DROP SCHEMA IF EXISTS payment_example CASCADE;
    CREATE SCHEMA payment_example;
    CREATE TABLE payment_example.account (name text PRIMARY KEY, balance numeric NOT NULL CHECK (balance >= 0));
    CREATE TABLE payment_example.payment (id int GENERATED ALWAYS AS IDENTITY, account text NOT NULL, amount numeric NOT NULL);
    INSERT INTO payment_example.account VALUES ('alice', 100);
)";

// What a web server does with POST /payments. The browser sent the key; the body is its fingerprint.
idem::answer pay(idem::client &db, const std::string &key, const std::string &body) {
    const auto request = idem::request{key}.in("payments").of_json(body).wait(std::chrono::seconds{30});
    return idem::once(db, request, [](idem::transaction &tx) {
        tx.exec("UPDATE payment_example.account SET balance = balance - 25 WHERE name = 'alice'");
        tx.exec("INSERT INTO payment_example.payment (account, amount) VALUES ('alice', 25)");
        tx.exec("SELECT pg_catalog.pg_sleep(0.05)"); // time to cut the connection
        return idem::response{201, "{\"amount\": 25}"};
    });
}

std::string value(pqxx::transaction_base &sql, const char *query) { return sql.exec(query)[0][0].c_str(); }

} // namespace

int main() {
    pqxx::connection setup{""};
    pqxx::nontransaction sql{setup};
    sql.exec(kTables);
    // A browser would generate a UUID.
    const std::string key = "order 4711 " + value(sql, "SELECT pg_catalog.gen_random_uuid()");
    idem::client db{"application_name=payment_example"};

    std::atomic<int> made = 0, replayed = 0, failed = 0;
    std::vector<std::thread> servers;
    for (int i = 0; i < 8; ++i)
        servers.emplace_back([&] {
            try {
                const idem::answer paid = pay(db, key, R"({"account": "alice", "amount": 25})");
                ++(paid.replayed ? replayed : made);
                if (paid.status_code != 201 || paid.response != R"({"amount": 25})")
                    ++failed;
            } catch (const std::exception &e) {
                std::cerr << e.what() << "\n";
                ++failed;
            }
        });
    bool cut_off = false;
    while (!cut_off && made == 0)
        cut_off = !sql.exec("SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity "
                            "WHERE application_name = 'payment_example' AND query LIKE '%pg_sleep%'")
                       .empty();
    for (std::thread &each : servers)
        each.join();
    std::cout << "eight clicks" << (cut_off ? ", one cut off" : "") << ": " << made << " made, " << replayed << " replayed, "
              << failed << " failed\n";

    // Another request with the same key is not a retry.
    bool refused = false;
    try {
        pay(db, key, R"({"account": "alice", "amount": 99})");
    } catch (const idem::mismatch &e) {
        std::cout << "99 under the same key: " << e.what() << "\n";
        refused = true;
    }

    const std::string balance = value(sql, "SELECT balance FROM payment_example.account");
    const std::string payments = value(sql, "SELECT count(*) FROM payment_example.payment");
    std::cout << "alice has " << balance << ", payments: " << payments << "\n";
    const bool right = made == 1 && replayed == 7 && failed == 0 && refused && balance == "75" && payments == "1";
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
