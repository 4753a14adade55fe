#include "report.hpp"

#include <cstdio>
#include <sstream>
#include <string>

#include "events.hpp"
#include "text.hpp"

namespace demo::orders {
namespace {

void print_row(const std::string &name, const std::string &naive, const std::string &guarded) {
    std::printf("  %-44s %19s %16s\n", name.c_str(), naive.c_str(), guarded.c_str());
}

void print_row(const std::string &name, std::int64_t naive, std::int64_t guarded) {
    print_row(name, grouped(naive), grouped(guarded));
}

std::string seconds(std::chrono::duration<double> time) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", time.count());
    return text;
}

// Line by line: PostgreSQL puts the DETAIL on a line of its own.
void print_stray(std::string name, const Stray &stray) {
    std::istringstream lines{stray.sqlstate.empty() ? stray.message : stray.sqlstate + "  " + stray.message};
    for (std::string line; std::getline(lines, line); name.clear())
        std::printf("  %-12s %s\n", name.c_str(), line.c_str());
}

} // namespace

void print_head(std::uint64_t seed) {
    std::printf("Orders: %s orders, two workers that both get every event, --seed %llu\n\n"
                "  created -> paid -> shipped -> delivered; what is not shipped yet can be cancelled\n"
                "  %d customers cancel just when their order is being shipped\n",
                grouped(kOrders).c_str(), static_cast<unsigned long long>(seed), kCancelled);
    std::fflush(stdout);
}

void print_table(const Result &naive, const Result &guarded, const Log &log) {
    std::printf("\n");
    print_row("", kNaive.name, kGuarded.name);
    print_row("events handled", naive.ledger.events, guarded.ledger.events);
    print_row("  moved: the worker did its work", naive.ledger.moved, guarded.ledger.moved);
    print_row("  already: nothing left to do", naive.ledger.already, guarded.ledger.already);
    print_row("  not allowed: came too late", naive.ledger.not_allowed, guarded.ledger.not_allowed);
    print_row("cards charged twice", naive.ledger.charged_twice, guarded.ledger.charged_twice);
    print_row("orders shipped twice", naive.ledger.shipped_twice, guarded.ledger.shipped_twice);
    print_row("orders cancelled and shipped", naive.ledger.shipped_and_cancelled, guarded.ledger.shipped_and_cancelled);
    print_row("orders that passed each of their states once", naive.ledger.right_histories, guarded.ledger.right_histories);
    print_row("rows in idem_transition_log", "-", grouped(log.rows));
    print_row("seconds", seconds(naive.time), seconds(guarded.time));
}

void print_stray_scripts(const Result &naive, const Result &guarded) {
    std::printf("\nA stray script ships an order nobody has paid:  %s\n", guarded.stray.statement.c_str());
    print_stray("unguarded", naive.stray);
    print_stray("guarded", guarded.stray);
}

bool print_verdict(const Result &naive, const Result &guarded, const Log &log) {
    const Ledger &ledger = guarded.ledger;
    std::printf("\n");
    bool kept = expect(ledger.right_histories == kOrders, "with idem, an order did not pass each of its states once");
    kept &= expect(ledger.repeats_not_told == 0, "idem did not say \"already\" to a repeated transition");
    kept &= expect(ledger.moved + ledger.already + ledger.not_allowed == ledger.events, "idem gave an unexpected answer");
    kept &= expect(log.rows == kOrders + ledger.moved, "the log does not have one row per order and move");
    kept &= expect(log.right_histories == kOrders, "the log tells another story than the shop's tables");
    kept &= expect(guarded.stray.sqlstate == "ID003", "the machine let a stray script pass");
    kept &= expect(naive.ledger.shipped_twice > 0 && naive.ledger.shipped_and_cancelled > 0,
                   "\"SELECT, then UPDATE\" did not ship an order twice, or no cancelled one, so this run proves nothing;"
                   " try another --seed");
    if (kept)
        std::printf("\"SELECT, then UPDATE\" shipped %s orders twice, and %s that were cancelled. With idem, each order\n"
                    "passed each of its states once, each repeated transition was \"already\", and the log has a row for\n"
                    "each of the %s orders created and each of the %s moves, no more.\n",
                    grouped(naive.ledger.shipped_twice).c_str(), grouped(naive.ledger.shipped_and_cancelled).c_str(),
                    grouped(kOrders).c_str(), grouped(ledger.moved).c_str());
    return kept;
}

} // namespace demo::orders
