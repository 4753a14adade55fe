// The load: which payments are asked for, how often, and what goes wrong on the way. It is made from a seed alone, so
// that both halves of the demo answer exactly the same requests in the same order.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace demo::payments {

// What becomes of one payment. `once` has one request, every other story has a second one with the same key.
enum class Story { once, double_click, retry_in_flight, lost_reply, backend_killed, socket_closed, other_amount };

// When the second request of a story goes out, seen from the first.
enum class Timing {
    never,
    same_moment,
    while_running,
    at_once, // as soon as the first request has ended
    later,
};

// What happens to the connection that carries the first request.
enum class Mishap {
    none,
    lose_reply,   // COMMIT reaches the server, its answer does not reach the client
    kill_backend, // pg_terminate_backend between two statements of the transaction
    close_socket, // the connection is gone just before COMMIT
};

struct StoryLine {
    Story story;
    const char *name; // as the table `due` and the report spell it
    const char *text;
    int share; // of every 60 payments
    Timing second_request;
    Mishap mishap;
};

// In the order of Story. 30 second requests for 60 payments: a third of all requests are duplicates.
inline constexpr std::array<StoryLine, 7> kStories{{
    {Story::once, "once", "one request, nothing goes wrong", 30, Timing::never, Mishap::none},
    {Story::double_click, "double_click", "double click", 8, Timing::same_moment, Mishap::none},
    {Story::retry_in_flight, "retry_in_flight", "retry while the first is running", 6, Timing::while_running, Mishap::none},
    {Story::lost_reply, "lost_reply", "retry after a lost reply", 6, Timing::later, Mishap::lose_reply},
    {Story::backend_killed, "backend_killed", "backend killed mid-transaction", 2, Timing::at_once, Mishap::kill_backend},
    {Story::socket_closed, "socket_closed", "connection lost before COMMIT", 2, Timing::at_once, Mishap::close_socket},
    {Story::other_amount, "other_amount", "same key, another amount", 6, Timing::later, Mishap::none},
}};

constexpr const StoryLine &line_of(Story story) { return kStories[static_cast<std::size_t>(story)]; }

struct Payment {
    std::string key;
    std::int64_t amount_cents;
    Story story;
};

struct Request {
    std::size_t payment; // its place in Load::payments
    std::string key;
    int customer;
    std::int64_t amount_cents;
    bool first; // of its payment's requests
    std::chrono::milliseconds gateway_time;

    // What the client sent; the fingerprint is taken of it.
    std::string body() const;
};

struct Load {
    std::vector<Payment> payments;
    std::vector<Request> requests; // in the order in which they go out; a first request stands before its second
};

// A load of about `size` requests, two thirds of them payments.
Load make_load(std::uint64_t seed, std::size_t size);

} // namespace demo::payments
