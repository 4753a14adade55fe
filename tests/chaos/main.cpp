// The chaos run: rounds of clients and nemesis, each history judged by the checker while the next round is on.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <future>
#include <iostream>
#include <random>

#include "nemesis.hpp"
#include "play.hpp"

namespace chaos {

namespace {

struct Run {
    Nanoseconds length = 60 * kSecond;
    Nanoseconds round = 15 * kSecond;
    std::uint64_t seed = 0;
    std::string history_file;
    Options options;
};

// What is known of one round when it is over.
struct Verdict {
    std::uint64_t seed = 0;
    History history;
    std::vector<Violation> findings;
    Report report;
    Nanoseconds checking = 0;
};

Verdict judge(std::uint64_t seed, History history, std::vector<Violation> findings) {
    Verdict verdict;
    const Nanoseconds begun = now();
    verdict.seed = seed;
    verdict.report = check(history);
    verdict.history = std::move(history);
    verdict.findings = std::move(findings);
    verdict.checking = now() - begun;
    return verdict;
}

std::size_t violations_of(const Verdict &verdict) {
    return verdict.findings.size() + verdict.report.violations.size() + verdict.report.left_out;
}

void show(const Run &run, const Verdict &verdict) {
    constexpr std::size_t kShown = 10;
    for (std::size_t i = 0; i < std::min(kShown, verdict.findings.size()); i++)
        print(std::cout, verdict.findings[i]);
    print(std::cout, verdict.report);
    std::ofstream file(run.history_file);
    write(file, verdict.history);
    file.close();
    std::cout << "the whole history: " << run.history_file << (file ? "" : " (could not be written)")
              << "\nonce more: make chaos" << (run.options.is_portable ? " PORTABLE=1" : "") << " SEED=" << verdict.seed
              << " SECONDS=" << run.round / kSecond << std::endl;
}

// Adds a judged round to the figures, and says so; false when it was not clean.
bool conclude(const Run &run, Figures *figures, const Verdict &verdict, Nanoseconds since) {
    const std::size_t violations = violations_of(verdict);
    figures->add(verdict.history);
    figures->violations += violations;
    figures->undecided += verdict.report.undecided;
    std::cout << (now() - since) / kSecond << " s, seed " << verdict.seed << ": " << verdict.report.transactions
              << " transactions, " << verdict.report.calls << " calls, " << verdict.report.searched << " searched, "
              << verdict.report.undecided << " undecided, checked in " << verdict.checking / kMillisecond << " ms, "
              << violations << " violations" << std::endl;
    for (const std::string &key : verdict.report.undecided_keys)
        std::cout << "  undecided: " << key << std::endl;
    if (violations > 0)
        show(run, verdict);
    return violations == 0;
}

int run_rounds(Run run) {
    Server server;
    server.complaints(); // from now on
    run.options.is_portable = prepare_database(server);
    Figures figures;
    const Nanoseconds begun = now(), until = begun + run.length;
    std::cout << "seed " << run.seed << ", " << run.options.clients << " clients"
              << (run.options.is_portable ? ", portable edition" : "") << std::endl;
    std::future<Verdict> pending;
    bool clean = true;
    for (std::uint64_t seed = run.seed; clean && now() < until; seed++) {
        Round round(seed, run.options, server, figures);
        History history = play(round, std::clamp(until - now(), kSecond, run.round));
        const bool is_broken = !round.findings.all().empty();
        if (pending.valid())
            clean = conclude(run, &figures, pending.get(), begun);
        if (clean)
            pending = std::async(std::launch::async, judge, seed, std::move(history), round.findings.all());
        if (clean && is_broken)
            break;
    }
    if (pending.valid())
        clean = conclude(run, &figures, pending.get(), begun) && clean;
    std::cout << figures << std::endl;
    if (!clean)
        std::cout << "first violation within " << (now() - begun) / kSecond << " s" << std::endl;
    return clean ? 0 : 1;
}

std::uint64_t random_seed() { return std::random_device()() % 1'000'000'000; }

std::vector<std::string> every_nemesis() {
    std::vector<std::string> names = Nemesis::names();
    names.emplace_back("worker");
    return names;
}

} // namespace

} // namespace chaos

int main(int argc, char **argv) {
    using namespace chaos;
    CLI::App app{"Breaks a server under clients of idem's, and checks what they saw against the contract."};
    double minutes = 0, seconds = 0, round = 15;
    Run run;
    run.seed = random_seed();
    run.history_file = "chaos-history.txt";
    std::vector<std::string> nemeses = every_nemesis();
    app.add_option("--minutes", minutes, "How long (default 1)");
    app.add_option("--seconds", seconds, "The same in seconds, in addition");
    app.add_option("--round", round, "Length of a round in seconds")->check(CLI::Range(1.0, 60.0));
    app.add_option("--seed", run.seed, "Of the first round; each further one counts on (default: random)");
    app.add_option("--clients", run.options.clients, "Connections")->check(CLI::Range(1, 64));
    app.add_option("--nemeses", nemeses,
                   "Which: all of them unless said; the portable edition has no rings, and its worker is a nemesis that calls "
                   "idem_sweep()")
        ->delimiter(',')
        ->check(CLI::IsMember(every_nemesis()) | CLI::IsMember({"none"}));
    app.add_option("--history", run.history_file, "Where to keep the history of a round with a violation");
    CLI11_PARSE(app, argc, argv);
    if (minutes > 0 || seconds > 0)
        run.length = static_cast<Nanoseconds>((minutes * 60 + seconds) * static_cast<double>(kSecond));
    run.round = static_cast<Nanoseconds>(round * static_cast<double>(kSecond));
    run.options.nemeses = {nemeses.begin(), nemeses.end()};
    try {
        return run_rounds(run);
    } catch (const std::exception &error) {
        std::cerr << "idem-chaos: " << error.what() << '\n';
        return 2;
    }
}
