#include "scratch.hpp"

#include <sys/socket.h>

namespace test {

const char *const kOddColumn = R"("it's a ""col\umn"" né")";
const char *const kOddMember = R"("it's a \"col\\umn\" né")";

scratch::scratch() {
    const std::string word = unique_key("odd");
    machine_ = "m'\\ " + word;
    table_ = R"("Odd ""schema\".")" + word + R"(; DROP ""ta'ble""")";
    ask("SET client_min_messages = warning; SELECT pg_advisory_lock(4994); CREATE SCHEMA IF NOT EXISTS \"Odd \"\"schema\\\"");
    ask("CREATE TABLE " + table_ + " (id int PRIMARY KEY, sku text NOT NULL UNIQUE, kind text NOT NULL DEFAULT 'thing', " +
        kOddColumn + " text, quantity numeric NOT NULL DEFAULT 0, state text NOT NULL DEFAULT 'new')");
    ask("CREATE INDEX ON " + table_ + " (kind)");
    ask("SELECT idem.optimistic_enable($1::regclass)", {table_});
    ask("SELECT idem.idem_machine_define($1, '{\"initial\": [\"new\"], \"transitions\": {\"new\": [\"paid\"], \"paid\": "
        "[\"sent\"]}}')",
        {machine_});
    ask("SELECT idem.idem_machine_attach($1::regclass, 'state', $2)", {table_, machine_});
    ask(insert());
}

scratch::~scratch() {
    try {
        ask("DROP TABLE " + table_);
        ask("SELECT idem.idem_machine_drop($1)", {machine_});
    } catch (const std::exception &) {
        // The server is removed after the tests.
    }
}

std::string scratch::value_of(const std::string &column, int id) const {
    return ask("SELECT " + column + " FROM " + table_ + " WHERE id = " + std::to_string(id));
}

std::string scratch::count() const { return ask("SELECT count(*) FROM " + table_); }

std::string scratch::insert() const {
    return "INSERT INTO " + table_ + " (id, sku, quantity) VALUES (1, 'A-1', 1), (2, 'A-2', 5)";
}

void scratch::reset(pqxx::transaction_base &in) const { in.exec("DELETE FROM " + table_ + ';' + insert()); }

void terminate(idem::transaction &tx, bool noticed) {
    const std::string pid = tx.exec("SELECT pg_catalog.pg_backend_pid()")[0][0].c_str();
    // Waits until the backend has ended.
    if (ask("SELECT pg_terminate_backend($1::int, 20000)", {pid}) != "t")
        throw std::runtime_error("the backend would not go");
    if (noticed)
        tx.exec("SELECT 1");
}

std::future<void> lose_commit_reply(idem::transaction &tx) {
    const std::string gate = unique_key("gate");
    auto keeper = std::make_shared<pqxx::connection>(dsn());
    auto held = std::make_shared<pqxx::nontransaction>(*keeper);
    held->exec("SELECT pg_advisory_lock(hashtextextended('" + gate + "', 0))");
    tx.exec("INSERT INTO public.client_gate VALUES ('" + gate + "')");
    const std::string pid = tx.exec("SELECT pg_backend_pid()")[0][0].c_str();
    const int socket = tx.conn().sock();
    return std::async(std::launch::async, [keeper, held, pid, socket] {
        const bool waits = eventually([&] {
            return held->exec("SELECT cardinality(pg_blocking_pids(" + pid + ")) > 0")[0][0].c_str() == std::string("t");
        });
        if (waits)
            shutdown(socket, SHUT_RD);
        held->exec("SELECT pg_advisory_unlock_all()");
        if (!waits)
            throw std::runtime_error("COMMIT did not come");
    });
}

rival::rival(const std::string &table) : db_(dsn()), tx_(std::make_unique<pqxx::work>(db_)) {
    tx_->exec("SET LOCAL deadlock_timeout = '10min'"); // so that the other session detects the deadlock
    tx_->exec("SELECT FROM " + table + " WHERE id = 2 FOR UPDATE");
    const std::string pid = tx_->exec("SELECT pg_backend_pid()")[0][0].c_str();
    waiting_ = std::async(std::launch::async, [this, table] {
        tx_->exec("SELECT FROM " + table + " WHERE id = 1 FOR UPDATE");
        tx_.reset();
    });
    if (!eventually([&] { return ask("SELECT cardinality(pg_blocking_pids($1::int)) > 0", {pid}) == "t"; }))
        throw std::runtime_error("the rival does not wait");
}

} // namespace test
