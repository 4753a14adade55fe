#include "run.hpp"

#include <atomic>
#include <barrier>
#include <deque>
#include <stop_token>
#include <thread>

#include "crew.hpp"

namespace demo::forms {
namespace {

using namespace std::chrono_literals;

// A form that was left open overnight: its token's night is short.
const char *ttl_of(Story story) { return story == Story::expired ? "1 ms" : "30 min"; }
constexpr auto kNight = 10ms;

std::string altered(std::string token, std::size_t place) {
    char &character = token[place % token.size()];
    character = character == 'A' ? 'B' : 'A';
    return token;
}

Click make_click(const Form &form, const std::string &token, std::size_t number, int nth) {
    return {.form = static_cast<int>(number),
            .nth = nth,
            .customer = form.customer + (form.story == Story::other_customer),
            .token = form.story == Story::altered ? altered(token, form.altered_place) : token,
            .card_is_declined = form.story == Story::declined_once && nth == 0,
            .work_time = form.work_time[static_cast<std::size_t>(nth)]};
}

} // namespace

std::vector<Session> connect_browsers(const Way &way) {
    std::vector<Session> sessions;
    for (std::size_t place = 0; place < 2 * kBrowsers; ++place)
        sessions.emplace_back(shop_conninfo(way.schema), [&way](pqxx::connection &connection) {
            connection.prepare("issue", way.issue);
            Submission::prepare(connection);
            way.prepare(connection);
        });
    return sessions;
}

Handout hand_out(std::vector<Session> &sessions, const Load &load) {
    Handout handout{.tokens = std::vector<std::string>(load.size())};
    std::atomic<std::size_t> next = 0;
    const auto start = std::chrono::steady_clock::now();
    run_together(sessions.size(), [&](std::size_t place, std::stop_token stop) {
        pqxx::nontransaction page{sessions[place].connection()};
        for (std::size_t i = next++; i < load.size() && !stop.stop_requested(); i = next++)
            handout.tokens[i] =
                one_row(exec_prepared(page, "issue", load[i].customer, ttl_of(load[i].story)))[0].as<std::string>();
    });
    handout.time = std::chrono::steady_clock::now() - start;
    return handout;
}

Course send_forms(std::vector<Session> &sessions, const Load &load, const std::vector<std::string> &tokens, const Way &way) {
    std::deque<std::barrier<>> barriers;
    for (std::size_t browser = 0; browser < kBrowsers; ++browser)
        barriers.emplace_back(2);
    std::vector<std::vector<Sent>> sent(sessions.size());
    std::this_thread::sleep_for(kNight);

    const auto start = std::chrono::steady_clock::now();
    run_together(sessions.size(), [&](std::size_t place, std::stop_token stop) {
        const std::size_t browser = place / 2;
        const int nth = static_cast<int>(place % 2);
        BarrierPlace clicks{barriers[browser]};
        const auto submit = [&](std::size_t number) {
            const Click click = make_click(load[number], tokens[number], number, nth);
            sent[place].push_back({click, way.submit(Submission{sessions[place].connection(), click})});
        };

        for (std::size_t i = browser; i < load.size() && !stop.stop_requested(); i += kBrowsers) {
            if (load[i].story == Story::not_sent)
                continue;
            const Again again = line_of(load[i].story).again;
            clicks.wait();
            if (nth == 0 || again == Again::same_moment)
                submit(i);
            clicks.wait();
            if (nth == 1 && again == Again::afterwards)
                submit(i);
        }
    });

    Course course{.sent = {}, .time = std::chrono::steady_clock::now() - start};
    for (const auto &of_connection : sent)
        course.sent.insert(course.sent.end(), of_connection.begin(), of_connection.end());
    return course;
}

} // namespace demo::forms
