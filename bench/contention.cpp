// Units per second, retries and waiting times of the strategies in strategies.hpp, the more clients ask for the fewer rows.
//
//   idem-bench-contention ROUNDS RUN_MS CLIENTS[,CLIENTS...] PRODUCTS[,PRODUCTS...]
//
// The tables are those of contenders/contention.sql, just filled. In each round, for each number of products and of
// clients, the strategies take turns: every client takes one unit after the other, of a product picked at random, and retries
// at once when it met somebody. A unit's time is from its first attempt to its commit. One line per run: setting, products,
// clients, strategy, round, units/s, retries per unit, median ms, p99 ms.
#include "in_threads.hpp"
#include "strategies.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <latch>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

namespace {

using namespace bench;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr Setting kSettings[] = {
    {"the unit alone", false, 0us},
    {"the unit, a sale and 1 ms of work", true, 1000us},
};

// Of which there are few units.
constexpr int kRareProduct = 0;

struct Tally {
    std::vector<double> milliseconds; // of the units taken, those after the deadline included: they have waited longest
    std::size_t in_time = 0, retries = 0;
    bool sold_out = false;

    void add(const Tally &other) {
        milliseconds.insert(milliseconds.end(), other.milliseconds.begin(), other.milliseconds.end());
        in_time += other.in_time;
        retries += other.retries;
        sold_out |= other.sold_out;
    }

    double percentile(std::size_t percent) const { return milliseconds[(milliseconds.size() - 1) * percent / 100]; }
};

// One of `products` products each time, or the rare one.
Tally take_until(Clock::time_point deadline, const Strategy &strategy, Client &client, int products) {
    Tally tally;
    while (!tally.sold_out && Clock::now() < deadline) {
        const int product = products == kRareProduct ? kRareProduct : client.pick(products);
        const auto start = Clock::now();
        Answer answer = strategy.attempt(client, product);
        for (; answer == Answer::kConflict; answer = strategy.attempt(client, product))
            tally.retries++;
        const auto end = Clock::now();
        if (answer == Answer::kSoldOut) {
            tally.sold_out = true;
        } else {
            tally.milliseconds.push_back(Milliseconds(end - start).count());
            tally.in_time += end <= deadline;
        }
    }
    return tally;
}

using Clients = std::vector<std::unique_ptr<Client>>;

Tally run(const Strategy &strategy, const Clients &clients, std::size_t client_count, int products, Clock::duration duration) {
    std::vector<Tally> tallies(client_count);
    std::latch start(static_cast<std::ptrdiff_t>(client_count));
    bench::in_threads(client_count, [&](std::size_t i) {
        start.arrive_and_wait();
        tallies[i] = take_until(Clock::now() + duration, strategy, *clients[i], products);
    });

    Tally all;
    for (const auto &tally : tallies)
        all.add(tally);
    std::sort(all.milliseconds.begin(), all.milliseconds.end());
    return all;
}

// The tables, seen from outside: a benchmark that oversells is not to be believed.
class Books {
  public:
    void open(const Strategy &strategy) {
        pqxx::nontransaction autocommit(connection_);
        if (strategy.empty) {
            autocommit.exec(strategy.empty);
            taken_[strategy.name] = 0;
        }
        autocommit.exec("TRUNCATE sales");
    }

    void close(const Strategy &strategy, const Setting &setting, std::size_t units) {
        pqxx::nontransaction autocommit(connection_);
        const auto total = one_row(autocommit.exec(strategy.units_taken))[0].as<std::size_t>();
        const auto taken = total - std::exchange(taken_[strategy.name], total);
        const auto sales = one_row(autocommit.exec("SELECT count(*) FROM sales"))[0].as<std::size_t>();
        if (taken == units && sales == (setting.sale ? units : 0))
            return;
        std::ostringstream text;
        text << strategy.name << ": clients were given " << units << " units; taken are " << taken << ", sold " << sales;
        throw std::runtime_error(text.str());
    }

  private:
    pqxx::connection connection_;
    std::map<std::string, std::size_t> taken_;
};

std::vector<int> numbers_from(const std::string &list) {
    std::vector<int> numbers;
    std::istringstream items(list);
    for (std::string item; std::getline(items, item, ',');)
        numbers.push_back(std::stoi(item));
    return numbers;
}

// All clients go on until the rare product is sold out. The first statements of a session load catalogs and plans: they are
// not timed here, and have been run when it comes to timing.
void sell_out(Books &books, const Clients &clients) {
    for (const auto &strategy : kStrategies) {
        for (const auto &client : clients)
            client->set(kSettings[0]);
        books.open(strategy);
        const auto tally = run(strategy, clients, clients.size(), kRareProduct, 1min);
        if (!tally.sold_out || std::cmp_not_equal(tally.milliseconds.size(), strategies::units_of(kRareProduct)))
            throw std::runtime_error(std::string(strategy.name) + ": the rare product was not sold exactly to the last unit");
        books.close(strategy, kSettings[0], tally.milliseconds.size());
    }
}

void measure(Books &books, const Clients &clients, int client_count, int products, const Setting &setting,
             Clock::duration duration, int round) {
    for (const auto &client : clients)
        client->set(setting);
    for (const auto &strategy : kStrategies) {
        books.open(strategy);
        const auto tally = run(strategy, clients, static_cast<std::size_t>(client_count), products, duration);
        const auto units = tally.milliseconds.size();
        books.close(strategy, setting, units);
        if (tally.sold_out || units == 0)
            throw std::runtime_error(std::string(strategy.name) + ": ran out of units, or of time");
        std::printf("%s\t%d\t%d\t%s\t%d\t%.1f\t%.4f\t%.3f\t%.3f\n", setting.name, products, client_count, strategy.name, round,
                    static_cast<double>(tally.in_time) / std::chrono::duration<double>(duration).count(),
                    static_cast<double>(tally.retries) / static_cast<double>(units), tally.percentile(50),
                    tally.percentile(99));
        std::fflush(stdout);
    }
}

void run_all(int argc, char **argv) {
    if (argc != 5)
        throw std::runtime_error("usage: idem-bench-contention ROUNDS RUN_MS CLIENTS[,CLIENTS...] PRODUCTS[,PRODUCTS...]");
    const int rounds = std::atoi(argv[1]);
    const std::chrono::milliseconds duration(std::atoi(argv[2]));
    const auto client_counts = numbers_from(argv[3]), product_counts = numbers_from(argv[4]);

    Clients clients;
    for (int i = 0; i < *std::max_element(client_counts.begin(), client_counts.end()); i++)
        clients.push_back(std::make_unique<Client>(std::random_device{}()));
    Books books;
    sell_out(books, clients);
    for (int round = 1; round <= rounds; round++)
        for (const auto &setting : kSettings)
            for (const int products : product_counts)
                for (const int client_count : client_counts)
                    measure(books, clients, client_count, products, setting, duration, round);
}

} // namespace

int main(int argc, char **argv) {
    try {
        run_all(argc, argv);
    } catch (const std::exception &error) {
        std::cerr << "idem-bench-contention: " << error.what() << '\n';
        return 1;
    }
}
