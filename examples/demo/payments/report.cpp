#include "report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "text.hpp"

namespace demo::payments {
namespace {

std::string euros(std::int64_t cents) {
    char fraction[8];
    std::snprintf(fraction, sizeof fraction, ".%02d", static_cast<int>(cents % 100));
    return grouped(cents / 100) + fraction;
}

std::string milliseconds(std::chrono::microseconds time) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(time.count()) / 1000);
    return text;
}

void print_row(const std::string &name, const std::string &naive, const std::string &guarded) {
    std::printf("  %-40s %17s %12s\n", name.c_str(), naive.c_str(), guarded.c_str());
}

void print_row(const std::string &name, std::int64_t naive, std::int64_t guarded) {
    print_row(name, grouped(naive), grouped(guarded));
}

std::int64_t duplicates_of(const Ledger &ledger, const StoryLine &line) {
    const auto found = ledger.duplicate_charges_by_story.find(line.name);
    return found == ledger.duplicate_charges_by_story.end() ? 0 : found->second;
}

} // namespace

void print_load(const Load &load, std::uint64_t seed) {
    std::printf("Payments: %s requests for %s payments from %d connections, --seed %llu\n",
                grouped(std::ssize(load.requests)).c_str(), grouped(std::ssize(load.payments)).c_str(), kConnections,
                static_cast<unsigned long long>(seed));
    std::fflush(stdout);
}

std::function<void(std::size_t)> progress_of(const std::string &name, std::size_t total) {
    if (isatty(STDOUT_FILENO))
        return [=](std::size_t done) {
            std::printf("\r%-17s  %zu of %zu requests%s", name.c_str(), done, total, done == total ? "\n" : "");
            std::fflush(stdout);
        };
    return [=, next = total / 4](std::size_t done) mutable {
        if (done < next || next == 0)
            return;
        std::printf("%-17s  %zu of %zu requests\n", name.c_str(), done, total);
        std::fflush(stdout);
        next = done == total ? 0 : std::min(total, next + total / 4);
    };
}

void print_table(const Load &load, const Result &naive, const Result &guarded) {
    std::printf("\n");
    print_row("", "look, then insert", "idem");
    print_row("requests", std::ssize(load.requests), std::ssize(load.requests));
    print_row("orders", naive.ledger.orders, guarded.ledger.orders);
    print_row("charges", naive.ledger.charges, guarded.ledger.charges);
    print_row("duplicate charges", naive.ledger.duplicate_charges, guarded.ledger.duplicate_charges);
    for (const StoryLine &line : kStories)
        if (line.second_request != Timing::never)
            print_row(std::string{"  "} + line.text, duplicates_of(naive.ledger, line), duplicates_of(guarded.ledger, line));
    print_row("  EUR charged twice", euros(naive.ledger.overcharged_cents), euros(guarded.ledger.overcharged_cents));
    print_row("lost payments", naive.ledger.lost_payments, guarded.ledger.lost_payments);
    print_row("replays", naive.tally.replays, guarded.tally.replays);
    print_row("  to a request for another amount", naive.tally.foreign_replays, guarded.tally.foreign_replays);
    print_row("in-flight answers", naive.tally.in_flight_answers, guarded.tally.in_flight_answers);
    print_row("mismatches", naive.tally.mismatches, guarded.tally.mismatches);
    print_row("connections lost", naive.tally.no_answers, guarded.tally.no_answers);
    print_row("p50 latency", milliseconds(naive.tally.p50), milliseconds(guarded.tally.p50));
    print_row("p99 latency", milliseconds(naive.tally.p99), milliseconds(guarded.tally.p99));
    std::printf("\nOrders, charges, duplicate charges and lost payments are counted by SQL in the shop's tables.\n");
}

bool print_verdict(const Result &naive, const Result &guarded) {
    bool kept = expect(guarded.ledger.duplicate_charges == 0, "idem let a payment be charged twice");
    kept &= expect(guarded.ledger.lost_payments == 0, "idem lost a payment");
    kept &= expect(guarded.ledger.wrong_amounts == 0, "with idem, an amount was charged that was not due");
    kept &= expect(guarded.tally.foreign_replays == 0, "idem answered a request with the response of another one");
    kept &= expect(guarded.tally.unequal_replays == 0, "with idem, a replay differs from the first response");
    kept &= expect(naive.ledger.duplicate_charges > 0,
                   "\"look, then insert\" made no duplicate this time, so this run proves nothing; try another --seed");
    if (kept)
        std::printf("\"look, then insert\" made %s duplicate charges. idem made none, lost no payment, and each of its\n"
                    "%s replays equals the first response.\n",
                    grouped(naive.ledger.duplicate_charges).c_str(), grouped(guarded.tally.replays).c_str());
    return kept;
}

} // namespace demo::payments
