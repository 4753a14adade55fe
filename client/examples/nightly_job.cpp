// Three hosts start the same nightly job at the same minute. The next night one of them freezes in the middle, and continues
// after another has taken over. Every account gets its interest once a night.
//
// Runs against any database that has the extension; libpq's environment (PGHOST, PGDATABASE …) names it.
#include <idem/idem.hpp>

#include <array>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kBatches = 10;
constexpr const char *kLock = "nightly interest";

constexpr const char *kTables = R"(
    DROP SCHEMA IF EXISTS nightly_example CASCADE;
    CREATE SCHEMA nightly_example;
    CREATE TABLE nightly_example.account (id int PRIMARY KEY, batch int NOT NULL, balance numeric NOT NULL);
    INSERT INTO nightly_example.account SELECT i, i % 10, 100 FROM pg_catalog.generate_series(1, 100) i;
)";

/// Pays one batch in one transaction, under the lock and once per night. False: it was paid before.
bool pay_batch(idem::client &db, const idem::held_lock &lock, const std::string &night, int batch) {
    return idem::transact(db, [&](idem::transaction &tx) {
        lock.assert_fence(tx); // no other host can take over before COMMIT
        const bool first = idem::claim(tx, night + ", batch " + std::to_string(batch));
        if (first)
            tx.exec("UPDATE nightly_example.account SET balance = balance + 1 WHERE batch = " + std::to_string(batch));
        return first;
    });
}

/// Started by cron on each host: waits for the lock, and pays the batches that are left.
int job(idem::client &db, const std::string &night) {
    return idem::with_lock(db, kLock, [&](idem::held_lock &lock) {
        int paid = 0;
        for (int batch = 0; batch < kBatches; ++batch)
            paid += pay_batch(db, lock, night, batch);
        return paid;
    });
}

std::string value(pqxx::transaction_base &sql, const std::string &query) { return sql.exec(query)[0][0].c_str(); }

} // namespace

int main() {
    pqxx::connection setup{""};
    pqxx::nontransaction sql{setup};
    sql.exec(kTables);
    const std::string run = value(sql, "SELECT pg_catalog.gen_random_uuid()");

    std::array<idem::client, 3> hosts;
    std::array<int, 3> paid{};
    std::vector<std::thread> crons;
    for (std::size_t i = 0; i < hosts.size(); ++i)
        crons.emplace_back([&, i] {
            try {
                paid[i] = job(hosts[i], run + " monday");
            } catch (const std::exception &e) {
                std::cerr << e.what() << "\n";
            }
        });
    for (std::thread &each : crons)
        each.join();
    std::cout << "monday: the hosts paid " << paid[0] << ", " << paid[1] << " and " << paid[2] << " of " << kBatches
              << " batches\n";

    // Tuesday: the first host freezes after batch 4. An operator takes it for dead and frees its lock.
    std::optional<idem::held_lock> frozen = idem::try_lock(hosts[0], kLock);
    int first_half = 0;
    for (int batch = 0; batch < kBatches / 2; ++batch)
        first_half += pay_batch(hosts[0], frozen.value(), run + " tuesday", batch);
    sql.exec("SELECT " + hosts[0].schema() + ".idem_unlock('" + kLock + "', " + std::to_string(frozen->fence()) + ")");
    const int second_half = job(hosts[1], run + " tuesday");
    // The first host wakes up and continues.
    bool refused = false;
    try {
        pay_batch(hosts[0], *frozen, run + " tuesday", kBatches / 2);
    } catch (const idem::stale_fence &e) {
        std::cout << "the frozen host comes back: " << e.what() << "\n";
        refused = true;
    }
    std::cout << "tuesday: the frozen host paid " << first_half << " batches, another the other " << second_half << "\n";

    const std::string wrong = value(sql, "SELECT count(*) FROM nightly_example.account WHERE balance <> 102");
    std::cout << wrong << " accounts are wrong\n";
    const bool right =
        paid[0] + paid[1] + paid[2] == kBatches && first_half == 5 && second_half == 5 && refused && wrong == "0";
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
