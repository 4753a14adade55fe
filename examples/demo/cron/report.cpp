#include "report.hpp"

#include <cstdio>
#include <sstream>

#include "text.hpp"

namespace demo::cron {
namespace {

void print_row(const std::string &name, const std::string &naive, const std::string &guarded) {
    std::printf("  %-52s %16s %16s\n", name.c_str(), naive.c_str(), guarded.c_str());
}

void print_row(const std::string &name, std::int64_t naive, std::int64_t guarded) {
    print_row(name, grouped(naive), grouped(guarded));
}

std::string seconds(std::chrono::duration<double> time) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", time.count());
    return text;
}

// Line by line: PostgreSQL puts DETAIL and HINT on lines of their own.
void print_refusal(const std::string &refusal) {
    if (refusal.empty())
        return;
    std::printf("\nWhat a host is told that was paused beyond its lease, and comes back to write:\n");
    std::istringstream lines{refusal};
    for (std::string line; std::getline(lines, line);)
        std::printf("  %s\n", line.c_str());
}

} // namespace

void print_head(std::uint64_t seed) {
    std::printf("Cron: a nightly job that starts on %zu hosts at once, %zu nights, --seed %llu\n\n"
                "  Once a night, each of %d accounts is to get EUR 1 of interest. On %zu nights the host that begins\n"
                "  first dies in the middle. On %zu it is paused, as by a frozen virtual machine, until the others are\n"
                "  through. On %zu more the job takes twice as long as a lease, which is %lld ms, and renews it.\n\n",
                kHosts, kNights, static_cast<unsigned long long>(seed), kAccounts, kDeaths, kPauses, kLongNights,
                static_cast<long long>(kLease.count()));
    std::printf("  %-17s SELECT last_run, do the job, UPDATE last_run\n"
                "  %-17s the same between idem_lock and idem_unlock, idem_assert_fence before the write\n",
                kNaive.name, kGuarded.name);
    std::fflush(stdout);
}

void print_table(const Result &naive, const Result &guarded) {
    const Ledger &without = naive.ledger, &with = guarded.ledger;
    std::printf("\n");
    print_row("", kNaive.name, kGuarded.name);
    print_row("times a host began the job", without.begun, with.begun);
    print_row("  died in the middle: nothing written", without.died, with.died);
    print_row("  was paused, came back late, and wrote", without.late_writes, with.late_writes);
    print_row("  was paused, came back late, and was refused", without.refused, with.refused);
    print_row("nights on which the job ran once", without.once, with.once);
    print_row("  twice", without.twice, with.twice);
    print_row("  three times", without.three_times, with.three_times);
    print_row("  never", without.never, with.never);
    print_row("EUR paid too much", without.overpaid_cents / 100, with.overpaid_cents / 100);
    print_row("nights on which a dead or paused host was taken over", "-", grouped(with.taken_over));
    print_row("  so many ms after its begin", "-", grouped(with.least_ms) + " to " + grouped(with.most_ms));
    print_row("seconds, waiting for leases included", seconds(naive.time), seconds(guarded.time));
    print_refusal(guarded.refusal);
}

bool print_verdict(const Result &naive, const Result &guarded) {
    const Ledger &without = naive.ledger, &with = guarded.ledger;
    std::printf("\n");
    bool kept = expect(with.once == kNights, "with idem, the job did not run once on each night");
    kept &= expect(with.overpaid_cents == 0, "with idem, the balances are not what they ought to be");
    kept &= expect(with.died > 0, "with idem, no host died in the middle");
    kept &= expect(with.taken_over >= static_cast<std::int64_t>(kDeaths + kPauses), "a dead or paused host was not taken over");
    kept &= expect(with.least_ms >= kLease.count(), "a lock was taken over before its lease had run out");
    kept &= expect(with.refused > 0, "no host that came back late was refused with ID001");
    kept &= expect(with.late_writes == 0, "a host that came back late wrote all the same");
    kept &= expect(with.stale_fences == 0, "a later holder of the lock did not have a greater fence");
    kept &= expect(without.twice + without.three_times > 0 && without.late_writes > 0,
                   "\"look at last_run\" did not run the job twice, or no paused host wrote late, so this run proves nothing;"
                   " try another --seed");
    if (kept)
        std::printf("All figures but the seconds come from SQL. With \"look at last_run\", the job ran more than once on\n"
                    "%s of %zu nights. With idem it ran once on each, whoever held the lock and died was taken over when\n"
                    "the lease had run out, and each late write was refused.\n",
                    grouped(without.twice + without.three_times).c_str(), kNights);
    return kept;
}

} // namespace demo::cron
