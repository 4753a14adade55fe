#include "play.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <thread>

#include "client.hpp"
#include "coordinator.hpp"
#include "nemesis.hpp"

namespace chaos {

namespace {

constexpr std::uint64_t kStream = 1'000'003;
constexpr const char *kMachine =
    R"({"initial": ["created"], "transitions": {"created": ["paid", "cancelled"], "paid": ["shipped", "refunded"],
        "shipped": ["returned"], "returned": ["shipped", "refunded"]}})";
const std::vector<std::pair<std::string, std::string>> kTransitions{
    {"", "created"},      {"created", "paid"},     {"created", "cancelled"}, {"paid", "shipped"},
    {"paid", "refunded"}, {"shipped", "returned"}, {"returned", "shipped"},  {"returned", "refunded"}};

// Of the harness itself, while nobody makes trouble.
class Desk {
  public:
    explicit Desk(const Server &server) {
        // It may still be recovering.
        for (const Nanoseconds until = now() + kLongestAnswer; !connection_.open(server.dsn("chaos-desk"));) {
            if (now() > until)
                throw std::runtime_error("could not connect to the server");
            sleep_for(10 * kMillisecond);
        }
    }
    std::vector<std::vector<Value>> ask(const std::string &sql, const std::vector<Value> &values = {}) {
        Answer answer = connection_.run(sql, values);
        if (!answer.ok())
            throw std::runtime_error(answer.sqlstate + ": " + answer.message + ", from " + sql);
        return std::move(answer.rows);
    }

  private:
    Connection connection_;
};

std::string microseconds(Nanoseconds span) { return std::to_string(span / kMicrosecond) + " microseconds"; }

void make_rings(Desk &desk) {
    for (const ChaosRing &ring : kRings)
        desk.ask("SELECT idem_ring_create($1, $2, $3)",
                 {ring.name, microseconds(ring.retention), std::to_string(ring.windows)});
}

// In some rounds the background worker sweeps, too.
void set_worker(Desk &desk, Random &random) {
    desk.ask("SELECT idem_next_id()"); // loads the library, whose settings these are
    desk.ask(random.chance(0.5) ? "ALTER SYSTEM SET idem.databases = 'postgres'" : "ALTER SYSTEM RESET idem.databases");
    desk.ask("ALTER SYSTEM SET idem.sweep_interval = '150 ms'");
    desk.ask("SELECT pg_reload_conf()");
}

Setup set_up(const Round &round) {
    Desk desk(round.server);
    Random random(round.seed, kStream);
    Setup setup;
    setup.seed = round.seed;
    setup.fences_by_name = round.options.is_portable;
    setup.transitions = kTransitions;
    if (round.options.has("worker") && !round.options.is_portable)
        set_worker(desk, random);
    desk.ask("TRUNCATE chaos_effects, chaos_orders, chaos_stock, idem_transition_log, idem_outbox");
    const Board &board = round.board;
    for (int i = 0; i < board.orders.count(); i++)
        desk.ask("INSERT INTO chaos_orders VALUES ($1, 'created')", {board.orders.name(i)});
    for (int i = 0; i < board.articles.count(); i++) {
        setup.stock.emplace_back(board.articles.name(i), random.between(0, 40));
        desk.ask("INSERT INTO chaos_stock VALUES ($1, $2)",
                 {setup.stock.back().first, std::to_string(setup.stock.back().second)});
    }
    return setup;
}

// What a session that lost its client still does counts, too.
void await_sessions(Round &round) {
    Desk desk(round.server);
    const Nanoseconds until = now() + kLongestAnswer;
    while (desk.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'chaos-client%'")[0][0] != "0") {
        if (now() > until) {
            round.findings.add({"hung", "", "a session outlives its client by a minute", {}});
            return;
        }
        sleep_for(5 * kMillisecond);
    }
}

FinalState read_final_state(const Round &round) {
    Desk desk(round.server);
    FinalState final_state;
    for (const auto &row : desk.ask("SELECT key, transaction, fence FROM chaos_effects ORDER BY number"))
        final_state.effects.push_back({*row[0], std::stoull(*row[1]), std::stoll(*row[2])});
    for (const auto &row :
         desk.ask("SELECT key->>'id', coalesce(from_state, ''), to_state FROM idem_transition_log ORDER BY at"))
        final_state.moves.push_back({*row[0], *row[1], *row[2]});
    for (const auto &row : desk.ask("SELECT id, stock FROM chaos_stock ORDER BY id"))
        final_state.stock.emplace_back(*row[0], std::stoll(*row[1]));
    for (const auto &row : desk.ask("SELECT id, state FROM chaos_orders ORDER BY id"))
        final_state.states.emplace_back(*row[0], *row[1]);
    for (const auto &row : desk.ask("SELECT payload->>'dedup_id', id FROM idem_outbox ORDER BY id"))
        final_state.messages.emplace_back(*row[0], std::stoll(*row[1]));
    return final_state;
}

void take_log(History *history, std::vector<Transaction> log) {
    std::move(log.begin(), log.end(), std::back_inserter(history->transactions));
}

} // namespace

bool prepare_database(Server &server) {
    Desk desk(server);
    if (desk.ask("SELECT to_regproc('idem_version')")[0][0] == std::nullopt)
        desk.ask("CREATE EXTENSION idem");
    const bool is_portable = desk.ask("SELECT edition FROM idem_version()")[0][0] == "portable";
    desk.ask(
        "CREATE TABLE chaos_effects (number bigserial, key text NOT NULL, transaction bigint NOT NULL, fence bigint NOT NULL)");
    desk.ask("CREATE TABLE chaos_orders (id text PRIMARY KEY, state text NOT NULL)");
    desk.ask("CREATE TABLE chaos_stock (id text PRIMARY KEY, stock bigint NOT NULL)");
    desk.ask("SELECT idem_machine_define('chaos', $1)", {kMachine});
    desk.ask("SELECT idem_machine_attach('chaos_orders', 'state', 'chaos', log => true)");
    if (!is_portable)
        make_rings(desk);
    for (const RingScope &scope : kRingScopes) // the ttl is for the time that a scope is in no ring
        desk.ask("SELECT idem_scope_set($1, ttl => $2, ring => $3)",
                 {scope.name, microseconds(scope.ring.retention), is_portable ? Value() : scope.ring.name});
    return is_portable;
}

History play(Round &round, Nanoseconds length) {
    History history;
    history.setup = set_up(round);
    {
        Coordinator coordinator(round);
        std::vector<std::unique_ptr<Client>> clients;
        for (int i = 0; i < round.options.clients; i++)
            clients.push_back(std::make_unique<Client>(round, coordinator, i, round.options.has("cut") && i % 2 == 1));
        std::vector<std::thread> threads;
        {
            const Nemesis nemesis(round);
            for (const auto &client : clients)
                threads.emplace_back([&client] { client->run(); });
            sleep_for(length);
        }
        round.stopping = true;
        for (std::thread &thread : threads)
            thread.join();
        for (const auto &client : clients)
            take_log(&history, std::move(client->log));
        clients.clear();
        await_sessions(round);
        take_log(&history, coordinator.finish());
    }
    std::sort(history.transactions.begin(), history.transactions.end(),
              [](const Transaction &a, const Transaction &b) { return a.begun < b.begun; });
    history.final_state = read_final_state(round);
    for (const std::string &line : round.server.complaints())
        round.findings.add({"server_log", "", line, {}});
    return history;
}

} // namespace chaos
