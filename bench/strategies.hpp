// Five ways of one effect: one unit of a product is taken exactly once, and the caller knows whether it got one.
#pragma once

#include <idem/pqxx_compat.hpp>

#include <pqxx/pqxx>

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace bench {

using idem::detail::exec_prepared;
using idem::detail::one_row;

enum class Answer { kTaken, kSoldOut, kConflict };

// What surrounds the taking.
struct Setting {
    const char *name;
    bool sale;                      // the transaction inserts a row of its own as well
    std::chrono::microseconds work; // the application's, not the database's
};

// A session with every strategy's statements prepared.
class Client {
  public:
    explicit Client(std::uint64_t seed) : bits_(seed) {
        connection_.prepare("read_optimistic", "SELECT quantity, version FROM stock_optimistic WHERE product = $1");
        connection_.prepare(
            "optimistic_update",
            "SELECT outcome, version, row_data->>'quantity' FROM optimistic_update('stock_optimistic', $1, $2, $3)");
        connection_.prepare("pessimistic_lock", "SELECT row_data->>'quantity' FROM pessimistic_lock('stock_pessimistic', $1)");
        connection_.prepare("take_locked", "UPDATE stock_pessimistic SET quantity = quantity - 1 WHERE product = $1");
        connection_.prepare("conditional_adjust",
                            "SELECT outcome FROM conditional_adjust('stock_conditional', $1, 'quantity', -1)");
        connection_.prepare("next_unit", "SELECT coalesce(max(unit), 0) + 1 FROM units_next WHERE product = $1");
        connection_.prepare("insert_next", "SELECT outcome FROM unique_insert('units_next', $1)");
        connection_.prepare("insert_random", "SELECT outcome FROM unique_insert('units_random', $1)");
        connection_.prepare("count_random", "SELECT count(*) FROM units_random WHERE product = $1");
        connection_.prepare("sale", "INSERT INTO sales (product) VALUES ($1)");
    }

    // What a conflict has told of the row, so that the next attempt need not read it.
    struct Stock {
        int quantity;
        std::int64_t version;
    };
    void remember(const Stock &stock) { stock_ = stock; }
    std::optional<Stock> recall() { return std::exchange(stock_, std::nullopt); }

    void set(const Setting &setting) { setting_ = setting; }

    int pick(int count) { return std::uniform_int_distribution<int>(1, count)(bits_); }

    // A statement that is a transaction of its own.
    template <typename... Arguments> pqxx::row ask(const char *statement, const Arguments &...arguments) {
        pqxx::nontransaction autocommit(connection_);
        return one_row(exec_prepared(autocommit, statement, arguments...));
    }

    using Transaction = std::unique_ptr<pqxx::transaction_base>;

    // BEGIN costs a round trip: a taking that is a single statement goes without.
    Transaction begin_taking() {
        if (setting_.sale)
            return begin();
        return std::make_unique<pqxx::nontransaction>(connection_);
    }

    Transaction begin() { return std::make_unique<pqxx::work>(connection_); }

    void do_work() const {
        if (setting_.work.count() > 0)
            std::this_thread::sleep_for(setting_.work);
    }

    void finish(const Transaction &transaction, int product) const {
        if (setting_.sale)
            exec_prepared(*transaction, "sale", product);
        transaction->commit();
    }

  private:
    pqxx::connection connection_;
    std::mt19937_64 bits_;
    Setting setting_{};
    std::optional<Stock> stock_;
};

namespace strategies {

// As contenders/contention.sql fills the stock; units that have rows of their own are numbered up to it.
inline int units_of(int product) { return product == 0 ? 100 : 1000000; }

inline std::string key_of(int product) { return "{\"product\": " + std::to_string(product) + "}"; }

inline bool is(const pqxx::row &row, const char *outcome) { return row[0].as<std::string>() == outcome; }

inline Client::Stock read_stock(Client &client, int product) {
    const auto row = client.ask("read_optimistic", product);
    return {row[0].as<int>(), row[1].as<std::int64_t>()};
}

// Read, work, write if nobody else has; what is in between holds no lock.
inline Answer optimistic(Client &client, int product) {
    const auto told = client.recall();
    const auto seen = told ? *told : read_stock(client, product);
    if (seen.quantity == 0)
        return Answer::kSoldOut;
    client.do_work();

    const auto transaction = client.begin_taking();
    const auto row = one_row(exec_prepared(*transaction, "optimistic_update", key_of(product), seen.version,
                                           "{\"quantity\": " + std::to_string(seen.quantity - 1) + "}"));
    if (is(row, "conflict")) {
        client.remember({row[2].as<int>(), row[1].as<std::int64_t>()});
        return Answer::kConflict;
    }
    if (!is(row, "updated"))
        throw std::runtime_error("optimistic_update: unexpected outcome");
    client.finish(transaction, product);
    return Answer::kTaken;
}

// Lock, work, write: others wait from the lock to the commit.
inline Answer pessimistic(Client &client, int product) {
    const auto transaction = client.begin();
    const auto row = one_row(exec_prepared(*transaction, "pessimistic_lock", key_of(product)));
    if (row[0].as<int>() == 0)
        return Answer::kSoldOut;
    client.do_work();

    exec_prepared(*transaction, "take_locked", product);
    client.finish(transaction, product);
    return Answer::kTaken;
}

// Work that does not depend on the row, then one statement that reads, decides and writes.
inline Answer conditional(Client &client, int product) {
    client.do_work();

    const auto transaction = client.begin_taking();
    const auto row = one_row(exec_prepared(*transaction, "conditional_adjust", key_of(product)));
    if (is(row, "out_of_range"))
        return Answer::kSoldOut;
    if (!is(row, "adjusted"))
        throw std::runtime_error("conditional_adjust: unexpected outcome");
    client.finish(transaction, product);
    return Answer::kTaken;
}

inline Answer insert_unit(Client &client, const char *statement, int product, int unit) {
    client.do_work();

    const auto transaction = client.begin_taking();
    const auto row = one_row(exec_prepared(
        *transaction, statement, "{\"product\": " + std::to_string(product) + ", \"unit\": " + std::to_string(unit) + "}"));
    if (is(row, "duplicate"))
        return Answer::kConflict;
    client.finish(transaction, product);
    return Answer::kTaken;
}

// Units go out in order: all who come at the same time want the same one.
inline Answer unique_next(Client &client, int product) {
    const int unit = client.ask("next_unit", product)[0].as<int>();
    if (unit > units_of(product))
        return Answer::kSoldOut;
    return insert_unit(client, "insert_next", product, unit);
}

// Any unit will do. After a duplicate it may be that none is left; which is when somebody has to count.
inline Answer unique_random(Client &client, int product) {
    const auto answer = insert_unit(client, "insert_random", product, client.pick(units_of(product)));
    if (answer == Answer::kConflict && client.ask("count_random", product)[0].as<int>() == units_of(product))
        return Answer::kSoldOut;
    return answer;
}

} // namespace strategies

struct Strategy {
    const char *name;
    Answer (*attempt)(Client &, int product);
    const char *units_taken; // since the tables were filled
    const char *empty;       // takes all units back; NULL where there is no need
};

inline constexpr Strategy kStrategies[] = {
    {"optimistic_update", strategies::optimistic,
     "SELECT sum(filled - quantity) FROM stock_optimistic HAVING sum(version - 1) = sum(filled - quantity)", nullptr},
    {"pessimistic_lock", strategies::pessimistic, "SELECT sum(filled - quantity) FROM stock_pessimistic", nullptr},
    {"conditional_adjust", strategies::conditional, "SELECT sum(filled - quantity) FROM stock_conditional", nullptr},
    {"unique_insert, next unit", strategies::unique_next, "SELECT count(*) FROM units_next", "TRUNCATE units_next"},
    {"unique_insert, random unit", strategies::unique_random, "SELECT count(*) FROM units_random", "TRUNCATE units_random"},
};

} // namespace bench
