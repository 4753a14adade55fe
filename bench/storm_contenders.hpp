// One request by each of the contenders of a storm: claim, an order that takes a while, stored response; or the response of
// whoever was first.
#pragma once

#include <hiredis/hiredis.h>

#include <idem/pqxx_compat.hpp>

#include <pqxx/pqxx>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace bench {

using idem::detail::exec_prepared;
using idem::detail::one_row;
using Clock = std::chrono::steady_clock;

constexpr auto kPollInterval = std::chrono::milliseconds(10);

struct Answer {
    std::string response;
    bool is_new;                         // the work was done by this request
    Clock::time_point committed_at = {}; // if so, when the commit of the order was acknowledged
};

// One client's connection. A request is made again, by any contender, until it has its response.
struct Requester {
    virtual ~Requester() = default;
    virtual Answer request(const std::string &key, double seconds) = 0;
};

constexpr const char *kOrder = "INSERT INTO orders (customer_id, amount) SELECT 17, 12.50 FROM pg_sleep($1) RETURNING id";
constexpr const char *kClaim = "INSERT INTO raw_keys (scope, key, expires_at) VALUES ('', $1, now() + interval '24 hours') "
                               "ON CONFLICT (scope, key) DO NOTHING";
constexpr const char *kRespond = "UPDATE raw_keys SET status_code = 201, response = $2 WHERE scope = '' AND key = $1";
constexpr const char *kReplay = "SELECT response FROM raw_keys WHERE scope = '' AND key = $1";

inline std::string order_response(const pqxx::result &order) { return std::string(R"([{"id": )") + order[0][0].c_str() + "}]"; }

struct IdemBegin final : Requester {
    pqxx::connection connection;

    IdemBegin() {
        connection.prepare("begin", "SELECT outcome, response FROM idem_begin($1, wait => '10 min')");
        connection.prepare("order", kOrder);
        connection.prepare("complete", "SELECT idem_complete($1, $2, 201)");
    }
    Answer request(const std::string &key, double seconds) override {
        pqxx::work tx(connection);
        const auto ticket = one_row(exec_prepared(tx, "begin", key));
        if (ticket[0].as<std::string>() == "completed") {
            tx.commit();
            return {ticket[1].c_str(), false};
        }
        const auto response = order_response(exec_prepared(tx, "order", seconds));
        exec_prepared(tx, "complete", key, response);
        tx.commit();
        return {response, true, Clock::now()};
    }
};

// It never waits: asks again.
struct IdemExecute final : Requester {
    pqxx::connection connection;
    pqxx::nontransaction autocommit{connection};

    IdemExecute() {
        connection.prepare("execute", std::string("SELECT outcome, response FROM idem_execute($1, '") + kOrder +
                                          "', jsonb_build_array($2::float8))");
    }
    Answer request(const std::string &key, double seconds) override {
        for (;; std::this_thread::sleep_for(kPollInterval)) {
            const auto ticket = one_row(exec_prepared(autocommit, "execute", key, std::to_string(seconds)));
            const auto outcome = ticket[0].as<std::string>();
            if (outcome != "in_flight")
                return {ticket[1].c_str(), outcome == "acquired", Clock::now()};
        }
    }
};

// With a table of keys by hand.
struct Raw : Requester {
    pqxx::connection connection;

    Raw() {
        connection.prepare("claim", kClaim);
        connection.prepare("order", kOrder);
        connection.prepare("respond", kRespond);
        connection.prepare("replay", kReplay);
    }
    // What is left to do for whoever has claimed the key.
    static Answer work(pqxx::work &tx, const std::string &key, double seconds) {
        const auto response = order_response(exec_prepared(tx, "order", seconds));
        exec_prepared(tx, "respond", key, response);
        tx.commit();
        return {response, true, Clock::now()};
    }
};

struct RawOnConflict final : Raw {
    Answer request(const std::string &key, double seconds) override {
        pqxx::work tx(connection);
        if (exec_prepared(tx, "claim", key).affected_rows() == 0) {
            const auto stored = one_row(exec_prepared(tx, "replay", key));
            tx.commit();
            return {stored[0].c_str(), false};
        }
        return work(tx, key, seconds);
    }
};

struct Plpgsql final : Requester {
    pqxx::connection connection;
    pqxx::nontransaction autocommit{connection};

    Plpgsql() { connection.prepare("place", "SELECT is_new, answer FROM place_order_slowly($1, $2)"); }
    Answer request(const std::string &key, double seconds) override {
        const auto placed = one_row(exec_prepared(autocommit, "place", key, seconds));
        return {placed[1].c_str(), placed[0].as<bool>(), Clock::now()};
    }
};

struct AdvisoryLock final : Raw {
    AdvisoryLock() { connection.prepare("lock", "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"); }
    Answer request(const std::string &key, double seconds) override {
        pqxx::work tx(connection);
        exec_prepared(tx, "lock", key);
        if (const auto stored = exec_prepared(tx, "replay", key); !stored.empty()) {
            tx.commit();
            return {stored[0][0].c_str(), false};
        }
        exec_prepared(tx, "claim", key);
        return work(tx, key, seconds);
    }
};

// The claim and the response in Redis, the order in PostgreSQL; duplicates poll.
struct RedisPolling final : Requester {
    pqxx::connection connection;
    pqxx::nontransaction autocommit{connection};
    std::unique_ptr<redisContext, void (*)(redisContext *)> redis;

    explicit RedisPolling(const std::string &address)
        : redis(redisConnect(address.substr(0, address.find(':')).c_str(), std::atoi(address.c_str() + address.find(':') + 1)),
                redisFree) {
        connection.prepare("order", kOrder);
        if (const char *password = std::getenv("REDISCLI_AUTH"))
            ask("AUTH %s", password);
    }
    Answer request(const std::string &key, double seconds) override {
        if (ask("SET %s in_flight NX EX 86400", key.c_str()) == "OK") {
            const auto response = order_response(exec_prepared(autocommit, "order", seconds));
            const auto committed_at = Clock::now();
            ask("SET %s %s XX EX 86400", key.c_str(), response.c_str());
            return {response, true, committed_at};
        }
        for (;; std::this_thread::sleep_for(kPollInterval))
            if (const auto stored = ask("GET %s", key.c_str()); stored != "in_flight")
                return {stored, false};
    }

  private:
    // "" is no answer.
    template <typename... Words> std::string ask(const char *command, Words... words) {
        const std::unique_ptr<void, void (*)(void *)> freed(redisCommand(redis.get(), command, words...), freeReplyObject);
        const auto *reply = static_cast<const redisReply *>(freed.get());
        if (!reply || reply->type == REDIS_REPLY_ERROR)
            throw std::runtime_error(std::string("Redis: ") + (reply ? reply->str : redis->errstr));
        return reply->str ? std::string(reply->str, reply->len) : "";
    }
};

} // namespace bench
