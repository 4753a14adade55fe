// Hands the forms out and sends them back, from many connections at once.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "load.hpp"
#include "session.hpp"
#include "shop.hpp"
#include "way.hpp"

namespace demo::forms {

inline constexpr std::size_t kBrowsers = 8; // with two connections each, for two clicks at once

struct Handout {
    std::vector<std::string> tokens; // by form
    std::chrono::duration<double> time{};
};

struct Course {
    std::vector<Sent> sent;
    std::chrono::duration<double> time{};
};

// REQUIRES: the way's tables exist. Throws, as the others, what went wrong in a connection.
std::vector<Session> connect_browsers(const Way &way);

Handout hand_out(std::vector<Session> &sessions, const Load &load);
Course send_forms(std::vector<Session> &sessions, const Load &load, const std::vector<std::string> &tokens, const Way &way);

} // namespace demo::forms
