#include "report.hpp"

#include <cstdio>
#include <string>

#include "run.hpp"
#include "text.hpp"

namespace demo::stock {
namespace {

void print_row(const char *flow, const std::string &attempts, const std::string &sold, const std::string &sales,
               const std::string &left, const std::string &retries, const std::string &seconds) {
    std::printf("  %-20s %9s %8s %14s %11s %9s %9s\n", flow, attempts.c_str(), sold.c_str(), sales.c_str(), left.c_str(),
                retries.c_str(), seconds.c_str());
    std::fflush(stdout);
}

bool check_naive(const Ledger &ledger) {
    return expect(ledger.sales > kUnits, "\"SELECT, then UPDATE\" did not oversell this time, so this run proves nothing;"
                                         " try another --seed");
}

bool check_guarded(const char *flow, const Ledger &ledger) {
    const std::string with = std::string{"with "} + flow + ", ";
    bool kept = expect(ledger.sales == kUnits, with + "the sales are not as many as the units");
    kept &= expect(ledger.left == 0, with + "the stock does not end at 0");
    kept &= expect(ledger.unexplained == 0, with + "a buyer was told something else than the sales say");
    return kept;
}

} // namespace

void print_head(std::uint64_t seed) {
    std::printf("Stock: %s units of one article, %s attempts to buy one, from %zu connections, --seed %llu\n\n",
                grouped(kUnits).c_str(), grouped(kAttempts).c_str(), kConnections, static_cast<unsigned long long>(seed));
    for (const Flow *flow : kFlows)
        std::printf("  %-20s %s\n", flow->name, flow->how);
    std::printf("\n");
    print_row("", "attempts", "sold", "rows in sales", "units left", "retries", "seconds");
}

void print_result(const Result &result) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", result.time.count());
    const Ledger &ledger = result.ledger;
    print_row(result.flow->name, grouped(ledger.attempts), grouped(ledger.sold), grouped(ledger.sales), grouped(ledger.left),
              grouped(ledger.retries), seconds);
}

bool print_verdict(const std::vector<Result> &results) {
    std::printf("\nSold: what the buyers were told. All figures but the seconds are counted by SQL.\n");
    bool kept = true;
    std::int64_t oversold = 0;
    for (const Result &result : results) {
        if (result.flow == &kNaive) {
            oversold = result.ledger.sales - kUnits;
            kept &= check_naive(result.ledger);
        } else {
            kept &= check_guarded(result.flow->name, result.ledger);
        }
    }
    if (kept)
        std::printf("\"SELECT, then UPDATE\" sold %s units that were not there. Each of idem's three flows sold %s, the\n"
                    "last one included, and told every buyer the truth.\n",
                    grouped(oversold).c_str(), grouped(kUnits).c_str());
    return kept;
}

} // namespace demo::stock
