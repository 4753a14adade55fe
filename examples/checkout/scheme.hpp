// A way to see to it that one cart makes one order, however often it is sent. Each is a file in schemes/.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "shop.hpp"

namespace checkout {

// A page that is about to be made.
struct Visit {
    Shop &shop;
    std::string visitor;
    std::map<std::string, std::string> query{};
    std::chrono::milliseconds token_ttl{30min};
};

using Fields = std::vector<std::pair<std::string, std::string>>;

struct Scheme {
    const char *name;                                           // its path, and its prefix in strings.json
    const char *code;                                           // what it rests on, as the page shows it
    Fields (*fields)(const Visit &visit);                       // what is hidden in the form
    Answer (*submit)(Shop &shop, const Submission &submission); // one click on "Pay"; thread-safe
};

extern const Scheme kToken, kCounter, kKey, kNumber, kOptimistic, kPessimistic, kMachine, kPrg, kPlain;

inline constexpr std::array<const Scheme *, 9> kSchemes{&kToken,       &kCounter, &kKey, &kNumber, &kOptimistic,
                                                        &kPessimistic, &kMachine, &kPrg, &kPlain};

} // namespace checkout
