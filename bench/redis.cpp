// What pgbench is for PostgreSQL, for Redis: clients that run a contender again and again, and wait for each answer.
//
//   idem-bench-redis REDIS CONTENDER KEYS CLIENTS THREADS SECONDS
//
// REDIS is HOST:PORT, or the path of a socket; the password, if there is one, comes from REDISCLI_AUTH. PostgreSQL, if the
// contender has SQL, is where libpq's environment says. Prints requests per second and requests.
//
// A contender is a file with a step a line, each a round trip:
//
//   SET lock-{row} {nonce} NX PX 30000 -> OK         a command as one types it into redis-cli (but for quotes)
//   EVALSHA free.lua 1 lock-{row} {nonce} -> 1       a script, from the section beside the contender; loaded before the run
//   SQL INSERT … VALUES ({amount}) RETURNING id -> {order}        a prepared statement; of its rows, the first value is the
//   answer
//
// `-> ANSWER` is the answer that must come; `-> ANSWER or done`: any other ends the request; `-> {name}` keeps it. "nil" is no
// answer. {key} is of KEYS: `fresh`, or `duplicate:PREFILL` for those of bench/keys/prefill.sql; {row}, with `rows:ROWS`, is
// each of so many rows before any comes again, and no other client's; {nonce}, {customer_id} and {amount} are random.
#include "in_threads.hpp"

#include <hiredis/hiredis.h>
#include <libpq-fe.h>

#include <poll.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Variables = std::map<std::string, std::string>;

std::string contents_of(const std::string &path) {
    std::ifstream file(path);
    if (!file)
        throw std::runtime_error("could not read " + path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

struct Step {
    bool is_sql = false;
    std::vector<std::string> words; // of a command; of a statement, the names of its parameters
    std::string statement;
    std::string answer; // empty: any
    bool or_done = false;
};

// Finds the next "{name}"; braces around anything else stand for themselves.
bool find_variable(const std::string &text, std::size_t from, std::size_t &open, std::size_t &close) {
    for (open = text.find('{', from); open != std::string::npos; open = text.find('{', open + 1)) {
        close = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", open + 1);
        if (close != std::string::npos && close > open + 1 && text[close] == '}')
            return true;
    }
    return false;
}

std::string filled_in(const std::string &text, const Variables &variables) {
    std::string result;
    std::size_t from = 0, open = 0, close = 0;
    for (; find_variable(text, from, open, close); from = close + 1) {
        const auto variable = variables.find(text.substr(open + 1, close - open - 1));
        if (variable == variables.end())
            throw std::runtime_error("there is no variable " + text.substr(open, close - open + 1));
        result += text.substr(from, open - from) + variable->second;
    }
    return result + text.substr(from);
}

void read_statement(const std::string &text, Step &step) {
    step.is_sql = true;
    std::size_t from = 0, open = 0, close = 0;
    for (; find_variable(text, from, open, close); from = close + 1) {
        step.words.push_back(text.substr(open + 1, close - open - 1));
        step.statement += text.substr(from, open - from) + "$" + std::to_string(step.words.size());
    }
    step.statement += text.substr(from);
}

Step step_from(std::string line) {
    Step step;
    if (const auto arrow = line.rfind(" -> "); arrow != std::string::npos) {
        step.answer = line.substr(arrow + 4);
        line.erase(arrow);
        const std::string or_done = " or done";
        if (step.answer.size() > or_done.size() &&
            step.answer.compare(step.answer.size() - or_done.size(), or_done.size(), or_done) == 0) {
            step.or_done = true;
            step.answer.erase(step.answer.size() - or_done.size());
        }
    }
    if (line.rfind("SQL ", 0) == 0) {
        read_statement(line.substr(4), step);
    } else {
        std::istringstream words(line);
        for (std::string word; words >> word;)
            step.words.push_back(word);
    }
    return step;
}

struct Contender {
    std::string directory;
    std::vector<Step> steps;
    bool uses_sql = false;

    explicit Contender(const std::string &path) : directory(path.substr(0, path.rfind('/') + 1)) {
        std::istringstream lines(contents_of(path));
        for (std::string line; std::getline(lines, line);) {
            if (line.empty() || line[0] == '#')
                continue;
            steps.push_back(step_from(line));
            uses_sql |= steps.back().is_sql;
        }
        if (steps.empty())
            throw std::runtime_error(path + " has no steps");
    }
};

// What comes in the place of {key}, {row} and the others.
class Keys {
  public:
    Keys(const std::string &kind, int client, int clients) : client_(client), clients_(clients) {
        const auto colon = kind.find(':');
        if (colon != std::string::npos)
            count_ = std::atoll(kind.c_str() + colon + 1);
        kind_ = kind.substr(0, colon);
        if (kind_ != "fresh" && count_ <= 0)
            throw std::runtime_error("\"" + kind + "\" is not fresh, duplicate:PREFILL or rows:ROWS");
    }

    void next(Variables &variables) {
        if (kind_ == "fresh")
            variables["key"] = std::to_string(between(kLeast, kGreatest));
        else if (kind_ == "duplicate")
            variables["key"] = std::to_string(kLeast + between(1, count_) * ((kGreatest - kLeast) / count_));
        else
            // A prime stride, so that neighbours are far apart.
            variables["row"] = std::to_string(1 + (turn_++ * clients_ + client_) % count_ * 7919 % count_);
        variables["nonce"] = std::to_string(bits_()) + std::to_string(bits_());
        variables["customer_id"] = std::to_string(between(1, 100000));
        variables["amount"] = std::to_string(between(1, 50000));
    }

  private:
    // As in bench/keys.
    static constexpr long long kLeast = 1'000'000'000'000'000'000, kGreatest = 9'000'000'000'000'000'000;

    long long between(long long least, long long greatest) {
        return std::uniform_int_distribution<long long>(least, greatest)(bits_);
    }

    std::string kind_;
    long long count_ = 0, turn_ = 0;
    int client_, clients_;
    std::mt19937_64 bits_{std::random_device{}()};
};

// Answers are text; "nil" where there is none.
class Redis {
  public:
    explicit Redis(const std::string &address) {
        const auto colon = address.rfind(':');
        connection_.reset(address[0] == '/'
                              ? redisConnectUnix(address.c_str())
                              : redisConnect(address.substr(0, colon).c_str(), std::atoi(address.c_str() + colon + 1)));
        if (!connection_ || connection_->err)
            throw std::runtime_error("could not connect to Redis at " + address);
        if (const char *password = std::getenv("REDISCLI_AUTH"))
            ask({"AUTH", password});
    }

    int fd() const { return connection_->fd; }

    void send(const std::vector<std::string> &words) {
        std::vector<const char *> texts;
        std::vector<std::size_t> sizes;
        for (const auto &word : words) {
            texts.push_back(word.data());
            sizes.push_back(word.size());
        }
        int done = redisAppendCommandArgv(connection_.get(), static_cast<int>(words.size()), texts.data(), sizes.data());
        for (done = 0; !done;)
            check(redisBufferWrite(connection_.get(), &done));
    }

    // False: not all of the answer has come.
    bool receive(std::string &answer) {
        check(redisBufferRead(connection_.get()));
        void *reply = nullptr;
        check(redisGetReplyFromReader(connection_.get(), &reply));
        if (!reply)
            return false;
        const std::unique_ptr<void, void (*)(void *)> freed(reply, freeReplyObject);
        answer = text_of(*static_cast<redisReply *>(reply));
        return true;
    }

    std::string ask(const std::vector<std::string> &words) {
        std::string answer;
        for (send(words); !receive(answer);)
            ;
        return answer;
    }

  private:
    void check(int result) const {
        if (result != REDIS_OK)
            throw std::runtime_error(std::string("Redis: ") + connection_->errstr);
    }

    static std::string text_of(const redisReply &reply) {
        switch (reply.type) {
        case REDIS_REPLY_STATUS:
        case REDIS_REPLY_STRING:
            return {reply.str, reply.len};
        case REDIS_REPLY_INTEGER:
            return std::to_string(reply.integer);
        case REDIS_REPLY_NIL:
            return "nil";
        default:
            throw std::runtime_error("Redis: " + (reply.str ? std::string(reply.str, reply.len) : "an answer of many parts"));
        }
    }

    std::unique_ptr<redisContext, void (*)(redisContext *)> connection_{nullptr, redisFree};
};

class Postgres {
  public:
    explicit Postgres(const Contender &contender) : connection_(PQconnectdb(""), PQfinish) {
        if (PQstatus(connection_.get()) != CONNECTION_OK)
            throw std::runtime_error(PQerrorMessage(connection_.get()));
        for (std::size_t i = 0; i < contender.steps.size(); i++)
            if (contender.steps[i].is_sql) {
                const Result prepared(
                    PQprepare(connection_.get(), std::to_string(i).c_str(), contender.steps[i].statement.c_str(), 0, nullptr));
                check(prepared.get());
            }
    }

    int fd() const { return PQsocket(connection_.get()); }

    void send(std::size_t step, const std::vector<std::string> &parameters) {
        std::vector<const char *> values;
        for (const auto &parameter : parameters)
            values.push_back(parameter.c_str());
        if (!PQsendQueryPrepared(connection_.get(), std::to_string(step).c_str(), static_cast<int>(values.size()),
                                 values.data(), nullptr, nullptr, 0))
            throw std::runtime_error(PQerrorMessage(connection_.get()));
    }

    bool receive(std::string &answer) {
        if (!PQconsumeInput(connection_.get()))
            throw std::runtime_error(PQerrorMessage(connection_.get()));
        while (!PQisBusy(connection_.get())) {
            const Result result(PQgetResult(connection_.get()));
            if (!result)
                return true;
            check(result.get());
            const bool is_nil = PQntuples(result.get()) == 0 || PQgetisnull(result.get(), 0, 0);
            answer = is_nil ? "nil" : PQgetvalue(result.get(), 0, 0);
        }
        return false;
    }

  private:
    struct Clear {
        void operator()(PGresult *result) const { PQclear(result); }
    };
    using Result = std::unique_ptr<PGresult, Clear>;

    void check(PGresult *result) const {
        if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
            throw std::runtime_error(PQresultErrorMessage(result));
    }

    std::unique_ptr<PGconn, void (*)(PGconn *)> connection_;
};

class Client {
  public:
    Client(const std::string &redis, const Contender &contender, Keys keys)
        : steps_(contender.steps), keys_(std::move(keys)), redis_(redis) {
        if (contender.uses_sql)
            postgres_ = std::make_unique<Postgres>(contender);
        for (auto &step : steps_)
            if (!step.is_sql && step.words[0] == "EVALSHA")
                step.words.at(1) = redis_.ask({"SCRIPT", "LOAD", contents_of(contender.directory + step.words.at(1))});
    }

    int fd() const { return steps_[at_].is_sql ? postgres_->fd() : redis_.fd(); }
    long requests() const { return requests_; }

    void start() {
        keys_.next(variables_);
        at_ = 0;
        send();
    }

    // Bytes have come. True: the request is complete.
    bool go_on() {
        std::string answer;
        const Step &step = steps_[at_];
        if (!(step.is_sql ? postgres_->receive(answer) : redis_.receive(answer)))
            return false;
        const bool done = !accept(step, answer) || at_ + 1 == steps_.size();
        if (done) {
            requests_++;
        } else {
            at_++;
            send();
        }
        return done;
    }

  private:
    void send() {
        const Step &step = steps_[at_];
        std::vector<std::string> words;
        for (const auto &word : step.words)
            words.push_back(filled_in(step.is_sql ? "{" + word + "}" : word, variables_));
        if (step.is_sql)
            postgres_->send(at_, words);
        else
            redis_.send(words);
    }

    // False: the request ends with this answer.
    bool accept(const Step &step, const std::string &answer) {
        if (step.answer.empty() || step.answer == answer)
            return true;
        if (step.or_done)
            return false;
        if (step.answer.front() != '{')
            throw std::runtime_error("the answer to step " + std::to_string(at_ + 1) + " is \"" + answer + "\" instead of \"" +
                                     step.answer + "\"");
        variables_[step.answer.substr(1, step.answer.size() - 2)] = answer;
        return true;
    }

    std::vector<Step> steps_;
    Keys keys_;
    Redis redis_;
    std::unique_ptr<Postgres> postgres_;
    Variables variables_;
    std::size_t at_ = 0;
    long requests_ = 0;
};

using Clients = std::vector<std::unique_ptr<Client>>;

void run_until(Clock::time_point deadline, Clients &clients) {
    std::vector<pollfd> waiting;
    for (const auto &client : clients) {
        client->start();
        waiting.push_back({client->fd(), POLLIN, 0});
    }
    for (auto left = clients.size(); left > 0;) {
        poll(waiting.data(), waiting.size(), -1);
        for (std::size_t i = 0; i < waiting.size(); i++) {
            if (waiting[i].revents == 0)
                continue;
            if (clients[i]->go_on()) {
                if (Clock::now() >= deadline) {
                    waiting[i].fd = -1;
                    left--;
                    continue;
                }
                clients[i]->start();
            }
            waiting[i].fd = clients[i]->fd();
        }
    }
}

void run(int argc, char **argv) {
    if (argc != 7)
        throw std::runtime_error("usage: idem-bench-redis REDIS CONTENDER KEYS CLIENTS THREADS SECONDS");
    const Contender contender(argv[2]);
    const int client_count = std::atoi(argv[4]);
    std::vector<Clients> shares(static_cast<std::size_t>(std::atoi(argv[5])));
    for (int i = 0; i < client_count; i++)
        shares[static_cast<std::size_t>(i) % shares.size()].push_back(
            std::make_unique<Client>(argv[1], contender, Keys(argv[3], i, client_count)));

    const auto start = Clock::now();
    const auto deadline =
        start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::atof(argv[6])));
    bench::in_threads(shares.size(), [&](std::size_t i) { run_until(deadline, shares[i]); });

    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    long requests = 0;
    for (const auto &share : shares)
        for (const auto &client : share)
            requests += client->requests();
    std::printf("%.1f\t%ld\n", static_cast<double>(requests) / seconds, requests);
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(argc, argv);
    } catch (const std::exception &error) {
        std::cerr << "idem-bench-redis: " << error.what() << '\n';
        return 1;
    }
}
