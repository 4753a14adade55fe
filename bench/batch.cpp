// Times batches of keys, contenders alternating.
//
//   idem-bench-batch ROUNDS PRELOAD random|uuid_v7|sequential SIZE[,SIZE...] NAME=FILE...
//
// Every contender has a table of its own, empty at the start; all are filled with the same PRELOAD keys, and in each round
// all are given the same keys, so the tables stay of equal size. Keys that grow are given in their order, and those that are
// not fresh are neighbours, as when a batch is delivered again; half-fresh begins with the last ones of before. One line per
// round: kind, size, contender, round, keys/s.
#include "contender.hpp"

#include <idem/pqxx_compat.hpp>

#include <pqxx/pqxx>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

namespace {

using idem::detail::exec_prepared;

using Keys = std::vector<std::string>;

std::string uuid_text(std::uint64_t high, std::uint64_t low) {
    char text[37];
    std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(high >> 32),
                  static_cast<unsigned>(high >> 16 & 0xffff), static_cast<unsigned>(high & 0xffff),
                  static_cast<unsigned>(low >> 48), static_cast<unsigned long long>(low & 0xffffffffffffULL));
    return text;
}

// Keys in the text form that clients send: UUIDs of version 4 or 7, or numbers with leading zeros.
class KeyMaker {
  public:
    explicit KeyMaker(const std::string &order) : order_(order) {
        if (order != "random" && order != "uuid_v7" && order != "sequential")
            throw std::runtime_error("\"" + order + "\" is none of random, uuid_v7 and sequential");
    }

    bool grows() const { return order_ != "random"; }

    std::string next() {
        ++count_;
        if (order_ == "sequential") {
            char text[21];
            std::snprintf(text, sizeof text, "%020llu", count_);
            return text;
        }
        const std::uint64_t low = (bits_() & ~(3ULL << 62)) | (2ULL << 62);
        if (order_ == "uuid_v7")
            return uuid_text((kSomeMillisecond + count_ / kPerMillisecond) << 16 | 0x7000ULL | (bits_() & 0xfffULL), low);
        return uuid_text((bits_() & ~0xf000ULL) | 0x4000ULL, low);
    }

    Keys next(std::size_t count) {
        Keys keys(count);
        for (auto &key : keys)
            key = next();
        return keys;
    }

    std::size_t below(std::size_t limit) { return bits_() % limit; }

  private:
    static constexpr std::uint64_t kSomeMillisecond = 1'800'000'000'000;
    static constexpr std::uint64_t kPerMillisecond = 10;

    std::string order_;
    unsigned long long count_ = 0;
    std::mt19937_64 bits_{std::random_device{}()};
};

// No key needs quoting inside an array literal.
std::string array_literal(const Keys &keys) {
    std::string literal = "{";
    for (const auto &key : keys)
        literal.append(key).push_back(',');
    literal.back() = '}';
    return literal;
}

struct Contender {
    std::string name;
    pqxx::connection connection;
    pqxx::nontransaction autocommit{connection};

    explicit Contender(const std::string &argument) : name(argument.substr(0, argument.find('='))) {
        connection.prepare("claim", bench::statement_from(argument.substr(argument.find('=') + 1)));
    }

    // Seconds that the call took, the transfer of its answer included.
    double claim(const std::string &keys, std::size_t expected_new) {
        const auto start = std::chrono::steady_clock::now();
        const auto answer = exec_prepared(autocommit, "claim", keys);
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        if (static_cast<std::size_t>(answer.size()) != expected_new)
            throw std::runtime_error(name + " called a wrong number of keys new");
        return elapsed.count();
    }
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

Keys preload(Contenders &contenders, KeyMaker &maker, std::size_t count) {
    constexpr std::size_t kChunk = 10000;
    Keys all;
    all.reserve(count);
    while (all.size() < count) {
        Keys chunk = maker.next(std::min(kChunk, count - all.size()));
        // In key order for all, or the contenders would start from differently clustered tables.
        std::sort(chunk.begin(), chunk.end());
        const auto literal = array_literal(chunk);
        for (auto &contender : contenders)
            contender->claim(literal, chunk.size());
        all.insert(all.end(), chunk.begin(), chunk.end());
    }
    return all;
}

// Distinct keys of those that are there, in random order.
Keys some_of(const Keys &present, KeyMaker &maker, std::size_t count) {
    Keys chosen;
    chosen.reserve(count);
    const std::size_t stride = present.size() / count;
    for (std::size_t i = 0; i < count; i++)
        chosen.push_back(present[i * stride + maker.below(stride)]);
    for (std::size_t i = count; i > 1; i--)
        std::swap(chosen[i - 1], chosen[maker.below(i)]);
    return chosen;
}

// The keys of one call, the fresh ones among them last.
Keys batch_of(const Keys &present, KeyMaker &maker, std::size_t size, std::size_t fresh) {
    const std::size_t old = size - fresh;
    if (old > present.size())
        throw std::runtime_error("there are fewer keys than a call repeats");
    Keys keys;
    if (old > 0 && !maker.grows()) {
        keys = some_of(present, maker, old);
    } else if (old > 0) {
        const auto last = present.end() - static_cast<std::ptrdiff_t>(fresh > 0 ? 0 : maker.below(present.size() - old + 1));
        keys.assign(last - static_cast<std::ptrdiff_t>(old), last);
    }
    while (keys.size() < size)
        keys.push_back(maker.next());
    return keys;
}

void measure(Contenders &contenders, KeyMaker &maker, Keys &present, const char *kind, std::size_t size, std::size_t fresh,
             int rounds) {
    // Small calls are repeated until a round is long enough to be timed.
    const std::size_t calls = std::clamp<std::size_t>(20000 / size, 1, 200);
    for (int round = 1; round <= rounds; round++) {
        std::vector<double> seconds(contenders.size());
        for (std::size_t call = 0; call < calls; call++) {
            Keys keys = batch_of(present, maker, size, fresh);
            const auto literal = array_literal(keys);
            for (std::size_t i = 0; i < contenders.size(); i++)
                seconds[i] += contenders[i]->claim(literal, fresh);
            present.insert(present.end(), keys.end() - static_cast<std::ptrdiff_t>(fresh), keys.end());
        }
        for (std::size_t i = 0; i < contenders.size(); i++)
            std::printf("%s\t%zu\t%s\t%d\t%.0f\n", kind, size, contenders[i]->name.c_str(), round,
                        static_cast<double>(size * calls) / seconds[i]);
        std::fflush(stdout);
    }
}

std::vector<std::size_t> sizes_from(const std::string &list) {
    std::vector<std::size_t> sizes;
    std::istringstream items(list);
    for (std::string item; std::getline(items, item, ',');)
        sizes.push_back(std::stoul(item));
    return sizes;
}

void run(int argc, char **argv) {
    if (argc < 6)
        throw std::runtime_error(
            "usage: idem-bench-batch ROUNDS PRELOAD random|uuid_v7|sequential SIZE[,SIZE...] NAME=FILE...");
    const int rounds = std::atoi(argv[1]);
    Contenders contenders;
    for (int i = 5; i < argc; i++)
        contenders.push_back(std::make_unique<Contender>(argv[i]));

    KeyMaker maker(argv[3]);
    Keys present = preload(contenders, maker, std::stoul(argv[2]));
    contenders.front()->autocommit.exec("VACUUM (ANALYZE)");
    for (const auto size : sizes_from(argv[4])) {
        measure(contenders, maker, present, "duplicate", size, 0, rounds);
        measure(contenders, maker, present, "half-fresh", size, size / 2, rounds);
        measure(contenders, maker, present, "fresh", size, size, rounds);
    }
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(argc, argv);
    } catch (const std::exception &error) {
        std::cerr << "idem-bench-batch: " << error.what() << '\n';
        return 1;
    }
}
