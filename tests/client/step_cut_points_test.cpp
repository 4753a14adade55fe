// A worker is killed between every two statements of work in five steps, its own and those to its gateways, and another takes
// the work over. Each step takes effect once where the gateway can be asked or the effect is in this database. Where nobody can
// be asked, it is repeated if the worker was killed between the step's intention and its output, and only then.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <sys/wait.h>
#include <unistd.h>

#include <idem/leased.hpp>
#include <idem/transact.hpp>

#include "cut_points.hpp"
#include "proxy.hpp"
#include "server.hpp"

namespace {

using namespace std::chrono_literals;
using test::ask;

constexpr auto kKeyVariable = "IDEM_TEST_CHILD_STEPS";
constexpr auto kServerVariable = "IDEM_TEST_CHILD_SERVER";
constexpr auto kWorker = "step worker";

// Another company's system: it has what it was told, however that worker ends.
struct gateway {
    std::string at;

    void take(const std::string &effect) const { ask("INSERT INTO public.client_effect (key) VALUES ($1)", {effect}, at); }
    bool has(const std::string &effect) const { return test::effects(effect, at) > 0; }
};

std::string to_server(const std::string &at) { return at + " application_name='" + kWorker + "'"; }

idem::answer five_steps(idem::client &db, const std::string &at, const std::string &key) {
    const gateway outside{at};
    return idem::leased(db, idem::request{key}.lease(60s), [&](idem::lease &lease) {
        const auto asked = [&](const std::string &name) {
            return lease.step(
                name,
                [&] {
                    outside.take(key + name);
                    return '"' + name + '"';
                },
                [&] {
                    return outside.has(key + name) ? idem::step_fate::done('"' + name + '"') : idem::step_fate::not_done();
                });
        };
        const std::string charge = asked("charge");
        asked("parcel");
        idem::transact(db,
                       [&](idem::transaction &tx) { lease.step(tx, "book", [&] { test::leave_effect(tx, key + "book"); }); });
        lease.step("mail", [&] { outside.take(key + "mail"); });
        lease.step("text", [&] { outside.take(key + "text"); });
        return charge;
    });
}

// The worker, as a process.
TEST(StepChild, Work) {
    const char *key = std::getenv(kKeyVariable), *at = std::getenv(kServerVariable);
    if (key == nullptr || at == nullptr)
        GTEST_SKIP() << "a child of another test";
    idem::client_options options;
    options.dsn = to_server(at);
    idem::client db{options};
    five_steps(db, options.dsn, key);
    _exit(0);
}

// Starts a worker that is connected through `between`, and waits for its end. With `here` it is killed there.
int run_worker(test::proxy &between, const std::string &key, std::optional<test::cut> here) {
    const std::string at = between.dsn();
    const pid_t worker = fork();
    if (worker == 0) {
        setenv(kKeyVariable, key.c_str(), 1);
        setenv(kServerVariable, at.c_str(), 1);
        raise(SIGSTOP); // until the cut is armed
        execl("/proc/self/exe", "idem-client-tests", "--gtest_filter=StepChild.Work", "--gtest_brief=1", nullptr);
        _exit(127);
    }
    int status = 0;
    EXPECT_EQ(waitpid(worker, &status, WUNTRACED), worker);
    if (here) {
        here->victim = worker;
        between.arm(*here);
    } else
        between.count();
    kill(worker, SIGCONT);
    EXPECT_EQ(waitpid(worker, &status, 0), worker);
    return status;
}

class StepCutPoints : public testing::Test {
  protected:
    // What the dead worker sent may still be under way.
    void wait_until_settled() {
        EXPECT_TRUE(test::eventually(
            [&] { return eyes_.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", {kWorker}) == "0"; }));
    }
    bool is_intended(const std::string &key, const std::string &step) {
        return eyes_.ask("SELECT (steps -> $2 = 'null')::text FROM idem.idem_lookup($1)", {key, step}) == "true";
    }
    void end_lease(const std::string &key) {
        eyes_.ask(
            "UPDATE idem.idem_keys SET lease_until = pg_catalog.clock_timestamp() WHERE key = $1 AND lease_until IS NOT NULL"
            " AND completed_at IS NULL",
            {key});
    }

    test::observer eyes_;
    idem::client beside_ = test::make_client();
    int repeated_ = 0;

    void take_over(const std::string &key) {
        wait_until_settled();
        const bool mail_intended = is_intended(key, "mail"), text_intended = is_intended(key, "text");
        end_lease(key);
        EXPECT_EQ(five_steps(beside_, test::dsn(), key).response, R"("charge")");
        for (const char *once : {"charge", "parcel", "book"})
            EXPECT_EQ(eyes_.effects(key + once), 1) << once;
        const auto expect_repeated_only_if = [&](bool intended, const char *step) {
            const int effects = eyes_.effects(key + step);
            EXPECT_GE(effects, 1) << step;
            EXPECT_LE(effects, intended ? 2 : 1) << step;
            repeated_ += effects == 2;
        };
        expect_repeated_only_if(mail_intended, "mail");
        expect_repeated_only_if(text_intended, "text");
    }
};

TEST_F(StepCutPoints, AWorkerIsKilledBetweenEveryTwoStatements) {
    test::proxy between;
    ASSERT_EQ(run_worker(between, test::unique_key("calm"), {}), 0);
    const std::string sent = between.seen(test::side::frontend);
    int points = 0, runs = 0;
    for (int nth = 1; nth <= static_cast<int>(sent.size()); ++nth) {
        if (sent[nth - 1] != 'S' && sent[nth - 1] != 'Q') // what ends a statement
            continue;
        for (const test::moment when : {test::moment::before, test::moment::after}) {
            const test::cut here{test::side::frontend, nth, when};
            ++points;
            for (int i = 0; i < test::cut_repetitions(); ++i, ++runs) {
                SCOPED_TRACE(to_string(here) + " of " + sent);
                const std::string key = test::unique_key("killed");
                const int status = run_worker(between, key, here);
                EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
                take_over(key);
                if (HasFailure())
                    return;
            }
        }
    }
    EXPECT_GT(repeated_, 0) << "no worker died in a step that nobody can be asked about: this test shows nothing";
    std::cout << points << " points, " << runs << " workers killed, " << repeated_ << " steps repeated\n";
}

} // namespace
