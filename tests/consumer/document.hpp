// What the blocks of the documents take for granted: the application around them.
#pragma once

#include <idem/idem.hpp>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;

/// A request's body.
inline const std::string body = R"({"account": "alice", "amount": 25})";

/// A payment gateway: outside the database, and idempotent by the key it is given, as they are.
struct {
    std::string charge(const std::string &key, int amount) const {
        return "{\"charge\": \"" + key + "\", \"amount\": " + std::to_string(amount) + "}";
    }
    bool has(const std::string &) const { return false; }
    std::string receipt(const std::string &key) const { return charge(key, 25); }
} inline const gateway;

/// What a broker delivers.
struct message {
    std::string id, account;
};
inline const std::vector<message> messages{{"m1", "alice"}, {"m2", "bob"}, {"m1", "alice"}};

inline void log(const std::string &) {}

inline int failures = 0;

/// Runs the block that begins at this place.
inline void run(const char *place, void (*block)(idem::client &)) try {
    static idem::client db;
    block(db);
} catch (const std::exception &e) {
    std::cerr << place << ": " << e.what() << "\n";
    ++failures;
}

inline int report() { return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE; }

/// What a block says of its own outcome.
#define EXPECT(truth)                                                                                                          \
    do {                                                                                                                       \
        if (!(truth))                                                                                                          \
            throw std::runtime_error("not so: " #truth);                                                                       \
    } while (false)
