// A payment in three steps: the card is charged at a gateway, which can be asked what it has done; the payment is booked in
// this database; a receipt is mailed, which nobody can be asked about. The worker is killed at each point where that makes a
// difference, and the next one takes the work over. docs/leases.md shows the output.
//
// Runs against any database that has the extension; libpq's environment (PGHOST, PGDATABASE …) names it.
#include <idem/idem.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

constexpr const char *kTables = R"(
    DROP SCHEMA IF EXISTS steps_example CASCADE;
    CREATE SCHEMA steps_example;
    CREATE TABLE steps_example.payment (key text, charge text); -- no unique index: a second booking would show
    CREATE TABLE steps_example.outside (key text, what text);   -- what the gateway and the mail server did
)";

/// Where the worker dies. Nothing: it lives.
std::optional<std::string> death;

void point(const std::string &name) {
    if (death == name)
        raise(SIGKILL);
}

/// Other companies' systems. What they did is done, whatever becomes of the worker. Here they are a table, reached by a
/// connection of their own.
class outside {
  public:
    void charge(const std::string &key) { act(key, "charge"); }
    bool has_charge(const std::string &key) { return count(key, "charge") > 0; }
    void mail(const std::string &key) { act(key, "mail"); }
    int count(const std::string &key, const std::string &what) {
        pqxx::nontransaction sql{connection_};
        return sql
            .exec("SELECT count(*) FROM steps_example.outside WHERE key = " + sql.quote(key) +
                  " AND what = " + sql.quote(what))[0][0]
            .as<int>();
    }

  private:
    void act(const std::string &key, const std::string &what) {
        pqxx::nontransaction sql{connection_};
        sql.exec("INSERT INTO steps_example.outside VALUES (" + sql.quote(key) + ", " + sql.quote(what) + ")");
    }

    pqxx::connection connection_{""};
};

/// Says in `told`, if given, which steps this attempt took.
void pay(idem::client &db, const std::string &key, std::string *told = nullptr) {
    const auto tell = [&](const std::string &what) {
        if (told)
            *told += told->empty() ? what : ", " + what;
    };
    outside gateway;
    idem::leased(db, idem::request{key}.lease(1s).wait(10s), [&](idem::lease &lease) {
        const std::string charge = lease.step(
            "charge",
            [&] {
                point("before the charge");
                gateway.charge(lease.key());
                tell("charge");
                point("after the charge");
                return R"({"card": 25})";
            },
            [&] {
                const bool happened = gateway.has_charge(lease.key());
                tell(happened ? "ask: charged" : "ask: not charged");
                return happened ? idem::step_fate::done(R"({"card": 25})") : idem::step_fate::not_done();
            });
        point("after the charge was stored");
        idem::transact(db, [&](idem::transaction &tx) {
            lease.step(tx, "book", [&] {
                tx.exec("INSERT INTO steps_example.payment VALUES (" + tx.quote(lease.key()) + ", " + tx.quote(charge) + ")");
                tell("book");
                point("in the booking");
            });
        });
        point("after the booking");
        lease.step("mail", [&] {
            point("before the mail");
            gateway.mail(lease.key());
            tell("mail");
            point("after the mail");
        });
        point("after the mail was stored");
    });
}

void kill_worker(const std::string &where, const std::string &key) {
    const pid_t worker = fork();
    if (worker == 0) {
        death = where;
        idem::client db;
        pay(db, key);
        _exit(EXIT_SUCCESS); // a worker that lives proves nothing
    }
    int status = 0;
    if (waitpid(worker, &status, 0) != worker || !WIFSIGNALED(status))
        throw std::runtime_error("the worker was not killed " + where);
}

} // namespace

int main() {
    std::string run;
    {
        pqxx::connection setup{""};
        pqxx::nontransaction sql{setup};
        sql.exec(kTables);
        run = sql.exec("SELECT pg_catalog.gen_random_uuid()")[0][0].c_str();
    }
    const char *points[] = {"before the charge", "after the charge",         "after the charge was stored",
                            "in the booking",    "after the booking",        "before the mail",
                            "after the mail",    "after the mail was stored"};
    int wrong = 0, mailed_twice = 0;
    std::cout << std::left << std::setw(29) << "killed"
              << "what the next worker did\n";
    for (const char *where : points) {
        const std::string key = run + ' ' + where;
        kill_worker(where, key); // before this process has connections and threads

        std::string told;
        idem::client db;
        pay(db, key, &told);
        std::cout << std::setw(29) << where << (told.empty() ? "nothing" : told) << '\n';

        outside systems;
        pqxx::connection own{""};
        pqxx::nontransaction sql{own};
        const int booked = sql.exec("SELECT count(*) FROM steps_example.payment WHERE key = " + sql.quote(key))[0][0].as<int>();
        wrong += systems.count(key, "charge") != 1 || booked != 1 || systems.count(key, "mail") < 1;
        mailed_twice += systems.count(key, "mail") == 2;
    }
    std::cout << "charged and booked once: " << std::size(points) - wrong << " of " << std::size(points)
              << "; mailed twice: " << mailed_twice << '\n';
    return wrong == 0 && mailed_twice == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
