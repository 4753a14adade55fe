// Twelve customers order ten lamps at the same time; then two clerks ship every order. Ten orders are accepted, the other
// customers get "sold out", and each order is shipped in one parcel.
//
// Runs against any database that has the extension; libpq's environment (PGHOST, PGDATABASE …) names it.
#include <idem/idem.hpp>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kCustomers = 12;

constexpr const char *kTables = R"(
    DROP SCHEMA IF EXISTS stock_example CASCADE;
    CREATE SCHEMA stock_example;
    CREATE TABLE stock_example.product (sku text PRIMARY KEY, quantity int NOT NULL);
    CREATE TABLE stock_example.orders (id int PRIMARY KEY, status text NOT NULL DEFAULT 'created');
    CREATE TABLE stock_example.parcel (order_id int NOT NULL);
    INSERT INTO stock_example.product VALUES ('lamp', 10);
)";

struct sold_out : std::runtime_error {
    sold_out() : std::runtime_error("sold out") {}
};

idem::row order_key(int id) { return {{"id", id}}; }

/// Inserts the order and takes its lamp from the stock, together and once, however often the order is sent.
bool order(idem::client &db, int id) {
    return bool(idem::unique(db, "stock_example.orders", order_key(id), [](idem::transaction &tx, const std::string &) {
        if (!idem::conditional_adjust(tx, "stock_example.product", {{"sku", "lamp"}}, "quantity", "-1"))
            throw sold_out{};
    }));
}

/// True: this call shipped it.
bool ship(idem::client &db, int id) {
    return bool(idem::transition(db, "stock_example.orders", order_key(id), "created", "shipped", [&](idem::transaction &tx) {
        tx.exec("INSERT INTO stock_example.parcel VALUES (" + std::to_string(id) + ")");
    }));
}

void in_threads(int count, const std::function<void(int)> &work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i)
        threads.emplace_back([&work, i] {
            try {
                work(i);
            } catch (const std::exception &e) {
                std::cerr << e.what() << "\n";
                std::exit(EXIT_FAILURE);
            }
        });
    for (std::thread &each : threads)
        each.join();
}

std::string value(pqxx::transaction_base &sql, const char *query) { return sql.exec(query)[0][0].c_str(); }

} // namespace

int main() {
    idem::client db;
    pqxx::connection setup{""};
    pqxx::nontransaction sql{setup};
    sql.exec(kTables);
    sql.exec("SELECT " + db.schema() + R"(.idem_machine_define('parcel service',
             '{"initial": ["created"], "transitions": {"created": ["shipped", "cancelled"]}}'))");
    sql.exec("SELECT " + db.schema() + ".idem_machine_attach('stock_example.orders', 'status', 'parcel service')");

    std::atomic<int> sold = 0, again = 0, refused = 0;
    in_threads(kCustomers, [&](int id) {
        try {
            sold += order(db, id);
            again += !order(db, id); // the customer pressed the button twice
        } catch (const sold_out &) {
            ++refused;
        }
    });
    const std::string left = value(sql, "SELECT quantity FROM stock_example.product");
    std::cout << kCustomers << " customers: " << sold << " lamps sold, " << again << " second clicks, " << refused
              << " sold out, " << left << " left\n";

    std::atomic<int> shipped = 0;
    in_threads(2, [&](int) {
        for (int id = 0; id < kCustomers; ++id)
            shipped += ship(db, id);
    });
    const std::string parcels = value(sql, "SELECT count(*) FROM stock_example.parcel");
    std::cout << "two clerks: " << shipped << " shipped, in " << parcels << " parcels\n";

    const bool right = sold == 10 && again == 10 && refused == 2 && left == "0" && shipped == 10 && parcels == "10";
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
