#include "report.hpp"

#include <cstdio>
#include <functional>
#include <string>

#include "load.hpp"
#include "text.hpp"

namespace demo::forms {
namespace {

// A row of the table: a name, and a figure for each way.
void print_row(const std::string &name, const std::vector<Result> &results,
               const std::function<std::string(const Result &)> &figure) {
    std::printf("  %-50s", name.c_str());
    for (const Result &result : results)
        std::printf(" %13s", figure(result).c_str());
    std::printf("\n");
}

void print_count(const std::string &name, const std::vector<Result> &results, std::int64_t Ledger::*figure) {
    print_row(name, results, [=](const Result &result) { return grouped(result.ledger.*figure); });
}

void print_written(const std::string &name, const std::vector<Result> &results, std::int64_t Mark::*figure) {
    print_row(name, results, [=](const Result &result) { return grouped(result.written.*figure); });
}

// "-": nobody was told so.
void print_answer(const std::string &name, const std::vector<Result> &results, const char *answer) {
    print_row(name, results, [=](const Result &result) -> std::string {
        const auto &answers = result.ledger.answers;
        return answers.contains(answer) ? grouped(answers.at(answer)) : "-";
    });
}

void print_seconds(const std::string &name, const std::vector<Result> &results,
                   std::chrono::duration<double> Result::*seconds) {
    print_row(name, results, [=](const Result &result) {
        char text[32];
        std::snprintf(text, sizeof text, "%.1f", (result.*seconds).count());
        return std::string{text};
    });
}

} // namespace

void print_head(std::uint64_t seed) {
    std::printf("Forms: %s order forms are handed out, each with a token, and %s are sent, --seed %llu\n\n",
                grouped(kHandedOut).c_str(), grouped(kSent).c_str(), static_cast<unsigned long long>(seed));
    for (const StoryLine &line : kStories)
        if (line.story != Story::not_sent)
            std::printf("  %4zu  %s\n", forms_of(line), line.text);
    std::printf("\n");
    for (const Way *way : kWays)
        std::printf("  %-13s %s\n", way->name, way->how);
    std::fflush(stdout);
}

void print_table(const std::vector<Result> &results) {
    std::printf("\n");
    print_row("", results, [](const Result &result) { return std::string{result.way->name}; });
    print_row("forms handed out", results, [](const Result &) { return grouped(kHandedOut); });
    print_written("  rows written for them", results, &Mark::tokens);
    print_written("  transaction ids used", results, &Mark::transaction_ids);
    print_written("  bytes of WAL written", results, &Mark::wal_bytes);
    print_seconds("  seconds", results, &Result::handing_out);
    print_count("clicks on \"Send\"", results, &Ledger::clicks);
    print_answer("  accepted", results, "accepted");
    print_count("    but the card was declined: rolled back", results, &Ledger::declined);
    print_answer("  in_flight: the first click is not done yet", results, "in_flight");
    print_answer("  duplicate: the order was made before", results, "duplicate");
    print_answer("  expired", results, "expired");
    print_answer("  invalid: altered, or another customer's", results, "invalid");
    print_answer("  refused: one of these four, it cannot say which", results, "refused");
    print_count("orders that ought to be made", results, &Ledger::due);
    print_count("orders made", results, &Ledger::orders);
    print_count("  twice for one form", results, &Ledger::doubled);
    print_count("orders lost: the form was sent again in vain", results, &Ledger::lost);
    print_seconds("seconds", results, &Result::sending);
}

bool print_verdict(const std::vector<Result> &results) {
    const Result &delete_last = results.at(0), &delete_first = results.at(1), &guarded = results.at(2);
    std::printf("\nAnswers, orders, and what was written are counted by SQL.\n");

    bool kept = expect(guarded.ledger.doubled == 0, "idem let a form make two orders");
    kept &= expect(guarded.ledger.lost == 0, "with idem, a form that ought to make an order made none");
    kept &= expect(guarded.ledger.illegal == 0, "idem accepted a token that was expired, altered or another customer's");
    kept &= expect(guarded.ledger.right_forms == kSent, "idem told a customer something else than what became of the form");
    kept &= expect(guarded.ledger.redeemed == guarded.ledger.orders, "idem_tokens does not have one row per order");
    kept &= expect(guarded.written == Mark{}, "something was written while idem issued tokens");
    kept &= expect(delete_last.ledger.doubled > 0, "\"delete last\" doubled no order this time, so this run proves nothing;"
                                                   " try another --seed");
    kept &= expect(delete_first.ledger.lost > 0, "\"delete first\" lost no order this time, so this run proves nothing;"
                                                 " try another --seed");
    if (kept)
        std::printf("\"Delete last\" made %s orders twice, \"delete first\" lost %s. With idem, nothing was written when\n"
                    "%s forms were handed out, each form that ought to make an order made one, and each click was\n"
                    "told the truth.\n",
                    grouped(delete_last.ledger.doubled).c_str(), grouped(delete_first.ledger.lost).c_str(),
                    grouped(kHandedOut).c_str());
    return kept;
}

} // namespace demo::forms
