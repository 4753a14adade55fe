#include "simulation.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace chaos {
namespace {

constexpr Nanoseconds kMicrosecond = 1000;
constexpr Nanoseconds kDay = 24LL * 3600 * 1'000'000'000;

struct Key {
    std::string state; // "", "progress", "done", "released"
    bool claimed_here = false;
    bool leased = false;
    std::string owner, fingerprint, response;
    std::map<std::string, std::string> steps; // empty output: intended
    int attempt = 0;
    std::int64_t fence = 0;
    Nanoseconds lease_until = 0, expires = 0, retention = 0;
};
struct Lock {
    bool held = false;
    std::string owner;
    std::int64_t fence = 0;
    Nanoseconds until = 0;
};
struct Order {
    std::string state = "created";
};
struct Article {
    std::int64_t left = 40;
};
struct Message {
    std::int64_t id = 0; // 0: not published
};

// One row, changed by one transaction at a time.
template <typename Value> struct Cell {
    Value committed;
    Value pending;
    std::uint64_t holder = 0;
    std::vector<std::pair<std::uint64_t, Value>> saved; // at the savepoint: who held it then

    const Value &seen(std::uint64_t by) const { return holder == by ? pending : committed; }
    bool busy(std::uint64_t by) const { return holder != 0 && holder != by; }
    Value &change(std::uint64_t by) {
        if (holder != by) {
            pending = committed;
            holder = by;
        }
        return pending;
    }
};

template <typename Value> class Table {
  public:
    Cell<Value> &operator[](const std::string &name) { return cells_[name]; }
    void save(std::uint64_t by) {
        for (auto &[name, cell] : cells_)
            if (!cell.busy(by))
                cell.saved = {{cell.holder, cell.pending}};
    }
    void restore(std::uint64_t by) {
        for (auto &[name, cell] : cells_)
            if (cell.holder == by) {
                // A cell that was somebody else's when the savepoint was set was not this transaction's.
                const bool held = !cell.saved.empty() && cell.saved[0].first == by;
                if (held)
                    cell.pending = cell.saved[0].second;
                else
                    cell.holder = 0;
            }
    }
    void end(std::uint64_t by, bool commit) {
        for (auto &[name, cell] : cells_)
            if (cell.holder == by) {
                if (commit)
                    cell.committed = cell.pending;
                cell.holder = 0;
            }
    }
    std::map<std::string, Cell<Value>> &cells() { return cells_; }

  private:
    std::map<std::string, Cell<Value>> cells_;
};

struct Client {
    int number = 0;
    Nanoseconds ready = 0;
    bool in_transaction = false;
    Transaction transaction;
    int steps_left = 0;
    bool in_savepoint = false;
    std::size_t savepoint_from = 0; // of the steps
    std::size_t savepoint_effects = 0;
    bool waiting = false;
    int waits = 0;
    Step step;
    std::vector<Move> moves;
    std::size_t savepoint_moves = 0;
    struct Lease {
        std::string key;
        std::int64_t fence;
    };
    std::vector<Lease> keys, locks; // fences it was given at some time, good or stale
};

class Store {
  public:
    explicit Store(const Simulation &simulation) : simulation_(simulation), random_(simulation.seed) {
        history_.setup.seed = simulation.seed;
        history_.setup.transitions = {{"", "created"},     {"created", "paid"},      {"created", "cancelled"},
                                      {"paid", "shipped"}, {"shipped", "delivered"}, {"delivered", "created"}};
        for (int i = 0; i < simulation.names; ++i) {
            history_.setup.stock.emplace_back(name("article", i), 40);
            stock_[name("article", i)];
            orders_[name("order", i)];
        }
        clients_.resize(static_cast<std::size_t>(simulation.clients));
        for (std::size_t i = 0; i < clients_.size(); ++i) {
            clients_[i].number = static_cast<int>(i);
            clients_[i].ready = between(1, 500) * kMicrosecond;
        }
    }

    History run() {
        while (true) {
            auto &client = *std::min_element(clients_.begin(), clients_.end(),
                                             [](const Client &a, const Client &b) { return a.ready < b.ready; });
            now_ = std::max(now_ + 1, client.ready);
            if (!client.in_transaction) {
                if (started_ == simulation_.transactions) {
                    client.ready = kNever;
                    if (std::all_of(clients_.begin(), clients_.end(), [](const Client &one) { return one.ready == kNever; }))
                        break;
                    continue;
                }
                ++started_;
                start(client);
            } else if (client.steps_left > 0) {
                step(client);
            } else {
                end(client);
            }
        }
        for (auto &[order, cell] : orders_.cells())
            history_.final_state.states.emplace_back(order, cell.committed.state);
        for (auto &[article, cell] : stock_.cells())
            history_.final_state.stock.emplace_back(article, cell.committed.left);
        for (auto &[dedup_id, cell] : messages_.cells())
            if (cell.committed.id != 0)
                history_.final_state.messages.emplace_back(dedup_id, cell.committed.id);
        return std::move(history_);
    }

  private:
    static std::string name(const std::string &kind, std::int64_t i) { return kind + std::to_string(i); }
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
    }
    bool chance(int percent) { return between(1, 100) <= percent; }
    std::int64_t draw_fence() { return fence_ = std::max(fence_ + 1, now_ / kMicrosecond); }
    Nanoseconds retention() const { return simulation_.retention > 0 ? simulation_.retention : kDay; }

    void start(Client &client) {
        client.in_transaction = true;
        client.transaction = {};
        client.transaction.id = static_cast<std::uint64_t>(started_);
        client.transaction.client = client.number;
        client.transaction.isolation = chance(70) ? "rc" : chance(50) ? "rr" : "ser";
        client.transaction.prepared = chance(10);
        client.transaction.begun = now_;
        client.steps_left = static_cast<int>(between(1, 4));
        client.in_savepoint = false;
        client.waiting = false;
        client.moves.clear();
        client.ready = now_ + between(1, 300) * kMicrosecond;
    }

    // A step is sent when the client gets ready for it, takes effect now, and is answered later.
    void step(Client &client) {
        if (!client.waiting) {
            if (!client.in_savepoint && chance(12)) {
                client.in_savepoint = true;
                client.savepoint_from = client.transaction.steps.size();
                client.savepoint_effects = client.transaction.effects.size();
                client.savepoint_moves = client.moves.size();
                keys_.save(client.transaction.id);
                tokens_.save(client.transaction.id);
                locks_.save(client.transaction.id);
                orders_.save(client.transaction.id);
                stock_.save(client.transaction.id);
                messages_.save(client.transaction.id);
            }
            client.step = choose(client);
            client.step.sent = now_;
            client.waiting = true;
            client.waits = 0;
            client.ready = now_ + between(1, 400) * kMicrosecond;
            return;
        }
        if (!execute(client, client.step)) {
            if (++client.waits < 30) {
                client.ready = now_ + between(50, 400) * kMicrosecond;
                return;
            }
            client.step.sqlstate = "55P03";
        }
        client.waiting = false;
        --client.steps_left;
        const bool lost = chance(2);
        client.step.received = lost ? kNever : now_ + between(1, 300) * kMicrosecond;
        if (lost) {
            client.step.outcome.clear();
            client.step.sqlstate.clear();
            client.step.fence_given.reset();
            client.step.attempt.reset();
            client.step.response_given.reset();
            client.step.value_given.reset();
            client.step.steps_given.reset();
        }
        client.ready = (lost ? now_ : client.step.received) + between(1, 300) * kMicrosecond;
        const bool failed = !client.step.sqlstate.empty();
        client.transaction.steps.push_back(client.step);
        if (client.in_savepoint && !lost && (failed || chance(40))) {
            undo(client);
        } else if (failed || lost) {
            rollback(client);
            finish(client, Fate::aborted, now_);
        }
    }

    void undo(Client &client) {
        client.in_savepoint = false;
        const auto by = client.transaction.id;
        keys_.restore(by);
        tokens_.restore(by);
        locks_.restore(by);
        orders_.restore(by);
        stock_.restore(by);
        messages_.restore(by);
        for (auto i = client.savepoint_from; i < client.transaction.steps.size(); ++i)
            client.transaction.steps[i].undone = true;
        client.transaction.effects.resize(client.savepoint_effects);
        client.moves.resize(client.savepoint_moves);
        // Everything here happens now; what was undone must not seem to have been held until the next step.
        client.ready = std::max(client.ready, now_ + 1);
    }

    void rollback(Client &client) {
        end_all(client.transaction.id, false);
        client.moves.clear();
    }

    void end_all(std::uint64_t by, bool commit) {
        if (commit)
            for (auto &[key, cell] : keys_.cells())
                if (cell.holder == by)
                    cell.pending.claimed_here = false;
        keys_.end(by, commit);
        tokens_.end(by, commit);
        locks_.end(by, commit);
        orders_.end(by, commit);
        stock_.end(by, commit);
        messages_.end(by, commit);
    }

    void end(Client &client) {
        const bool commit = chance(85);
        const bool lost = chance(8);
        if (commit) {
            for (const auto &effect : client.transaction.effects)
                history_.final_state.effects.push_back(effect);
            for (const auto &move : client.moves)
                history_.final_state.moves.push_back(move);
        }
        end_all(client.transaction.id, commit);
        finish(client, lost ? Fate::unknown : commit ? Fate::committed : Fate::aborted, now_ + between(1, 300) * kMicrosecond);
    }

    void finish(Client &client, Fate fate, Nanoseconds when) {
        client.transaction.fate = fate;
        client.transaction.ended = when;
        client.in_transaction = false;
        client.ready = std::max(client.ready, when) + between(1, 300) * kMicrosecond;
        history_.transactions.push_back(client.transaction);
    }

    Step choose(Client &client) {
        Step step;
        const auto key = name("key", between(0, simulation_.names - 1));
        step.retention = simulation_.retention;
        switch (simulation_.only_keys ? between(0, 9) : between(0, 16)) {
        case 0:
            step.call = Call::claim;
            break;
        case 1:
            step.call = Call::try_claim;
            break;
        case 2:
            step.call = Call::begin;
            step.response = "r" + std::to_string(started_) + "-" + std::to_string(between(0, 999));
            break;
        case 3:
        case 4:
        case 5:
            step.call = Call::begin;
            step.leased = true;
            step.lease = simulation_.lease;
            step.owner = chance(30) ? "" : name("owner", client.number);
            step.fingerprint = chance(50) ? "" : chance(80) ? "f1" : "f2";
            break;
        case 6:
        case 7:
            return with_fence(client);
        case 8:
            step.call = Call::lookup;
            break;
        case 9:
            step.call = simulation_.forgets && chance(50) ? Call::forget : Call::lookup;
            break;
        case 10:
            step.call = Call::redeem;
            step.key = name("token", started_ / 20);
            return step;
        case 11:
        case 12:
            step.call = Call::lock;
            step.key = name("lock", between(0, simulation_.names - 1));
            step.owner = chance(50) ? "" : name("owner", client.number);
            step.lease = simulation_.lease;
            return step;
        case 13:
            return with_lock_fence(client);
        case 14:
            step.call = Call::transition;
            step.key = name("order", between(0, simulation_.names - 1));
            step.to_state = std::vector<std::string>{"created", "paid", "cancelled", "shipped",
                                                     "delivered"}[static_cast<std::size_t>(chance(5)       ? 2
                                                                                           : between(0, 1) ? between(3, 4)
                                                                                                           : between(0, 1))];
            return step;
        case 15:
            step.call = Call::publish;
            step.key = name("dedup", started_ / 20);
            return step;
        default:
            step.call = Call::adjust;
            step.key = name("article", between(0, simulation_.names - 1));
            step.delta = chance(80) ? -between(1, 3) : between(1, 3);
            return step;
        }
        step.key = key;
        return step;
    }

    Step with_fence(Client &client) {
        Step step;
        if (client.keys.empty()) {
            step.call = Call::lookup;
            step.key = name("key", 0);
            return step;
        }
        const auto &lease =
            client
                .keys[chance(70) ? client.keys.size() - 1 : static_cast<std::size_t>(between(0, std::ssize(client.keys) - 1))];
        step.key = lease.key;
        step.fence = lease.fence;
        step.call = chance(45) ? Call::step : chance(60) ? Call::complete : chance(50) ? Call::renew : Call::release;
        if (step.call == Call::complete)
            step.response = "c" + std::to_string(lease.fence);
        if (step.call == Call::renew)
            step.lease = simulation_.lease;
        if (step.call == Call::step) {
            step.step_name = chance(80) ? "charge" : "mail";
            if (chance(60))
                step.response = "s" + std::to_string(chance(80) ? lease.fence : 0);
        }
        return step;
    }

    static std::string object_of(const std::map<std::string, std::string> &steps) {
        std::string object;
        for (const auto &[name, output] : steps)
            object += (object.empty() ? "{\"" : ", \"") + name + "\": " + (output.empty() ? "null" : output);
        return object.empty() ? object : object + '}';
    }

    Step with_lock_fence(Client &client) {
        Step step;
        if (client.locks.empty()) {
            step.call = Call::lookup;
            step.key = name("key", 0);
            return step;
        }
        const auto &lease = client.locks.back();
        step.key = lease.key;
        step.fence = lease.fence;
        step.call = chance(40) ? Call::unlock : chance(50) ? Call::renew_lock : Call::assert_fence;
        if (step.call == Call::renew_lock)
            step.lease = simulation_.lease;
        return step;
    }

    // False: has to wait.
    bool execute(Client &client, Step &step) {
        switch (step.call) {
        case Call::claim:
        case Call::try_claim:
        case Call::begin:
            return claim(client, step);
        case Call::complete:
        case Call::release:
        case Call::renew:
        case Call::step:
            return leased_change(client, step);
        case Call::lookup: {
            const auto &row = keys_[step.key].seen(client.transaction.id);
            const bool live = !expired(row);
            step.outcome = !live || row.state.empty() || row.state == "released" ? ""
                           : row.state == "done"                                 ? "completed"
                                                                                 : "in_progress";
            if (step.outcome == "completed" && !row.response.empty())
                step.response_given = row.response;
            if (!step.outcome.empty())
                step.steps_given = object_of(row.steps);
            return true;
        }
        case Call::forget: {
            auto &cell = keys_[step.key];
            if (cell.busy(client.transaction.id))
                return false;
            step.outcome = cell.seen(client.transaction.id).state.empty() ? "f" : "t";
            if (step.outcome == "t")
                cell.change(client.transaction.id) = {};
            return true;
        }
        case Call::redeem: {
            auto &cell = tokens_[step.key];
            const auto by = client.transaction.id;
            step.outcome = cell.busy(by) ? "in_flight" : cell.seen(by).held ? "duplicate" : "accepted";
            if (step.outcome == "accepted") {
                cell.change(by).held = true;
                client.transaction.effects.push_back({step.key, by, 0});
            }
            return true;
        }
        case Call::lock:
            return lock(client, step);
        case Call::renew_lock:
        case Call::unlock:
        case Call::assert_fence:
            return lock_change(client, step);
        case Call::transition:
            return transition(client, step);
        case Call::publish: {
            auto &cell = messages_[step.key];
            const auto by = client.transaction.id;
            if (cell.busy(by))
                return false;
            if (cell.seen(by).id == 0)
                cell.change(by).id = draw_fence();
            step.value_given = cell.seen(by).id;
            return true;
        }
        default:
            return adjust(client, step);
        }
    }

    bool expired(const Key &row) const {
        if (row.state.empty())
            return true;
        return row.expires <= now_ && !(row.state == "progress" && row.lease_until > now_);
    }

    bool claim(Client &client, Step &step) {
        auto &cell = keys_[step.key];
        const auto by = client.transaction.id;
        const bool waits = step.call == Call::claim;
        if (cell.busy(by)) {
            step.outcome = "in_flight";
            return !waits;
        }
        const Key old = expired(cell.seen(by)) ? Key{} : cell.seen(by);
        const bool own = cell.holder == by && old.claimed_here;
        const bool lapsed = old.state == "progress" && old.lease_until <= now_;
        std::string outcome;
        if (old.state.empty())
            outcome = "acquired";
        else if (own && old.state == "done")
            outcome = "completed";
        else if (own && old.state == "progress" && !lapsed && (old.owner.empty() || old.owner != step.owner || !step.leased))
            outcome = "in_flight";
        else if (!step.fingerprint.empty() && !old.fingerprint.empty() && step.fingerprint != old.fingerprint)
            outcome = "mismatch";
        else if (old.state == "progress" && step.leased && !step.owner.empty() && step.owner == old.owner)
            outcome = "again";
        else if (old.state == "progress")
            outcome = lapsed ? "taken_over" : "in_flight";
        else
            outcome = old.state == "done" ? "completed" : "acquired";

        if (outcome == "again") {
            auto &row = cell.change(by);
            row.lease_until = now_ + step.lease;
            step.outcome = "acquired";
            step.fence_given = row.fence;
            step.attempt = row.attempt;
            if (step.call == Call::begin)
                step.steps_given = object_of(row.steps);
            client.keys.push_back({step.key, row.fence});
            return true;
        }
        if (outcome == "acquired" || outcome == "taken_over") {
            auto &row = cell.change(by);
            row = {};
            row.attempt = old.attempt + 1;
            row.steps = old.steps;
            row.claimed_here = true;
            row.retention = retention();
            row.expires = now_ + row.retention;
            row.fingerprint = step.fingerprint;
            row.state = step.leased ? "progress" : "done";
            if (step.leased) {
                row.leased = true;
                row.owner = step.owner;
                row.fence = draw_fence();
                row.lease_until = now_ + step.lease;
                step.fence_given = row.fence;
                client.keys.push_back({step.key, row.fence});
            } else {
                row.response = step.response;
                client.transaction.effects.push_back({step.key, by, 0});
            }
            if (step.call == Call::begin) {
                step.attempt = row.attempt;
                step.steps_given = object_of(row.steps);
            }
        }
        if (outcome == "completed" && step.call == Call::begin && !old.response.empty())
            step.response_given = old.response;
        step.outcome = outcome;
        if (step.call == Call::claim) {
            if (outcome == "in_flight") {
                step.outcome.clear();
                step.sqlstate = "ID005";
            } else {
                step.outcome = outcome == "completed" ? "f" : "t";
            }
        }
        return true;
    }

    bool leased_change(Client &client, Step &step) {
        auto &cell = keys_[step.key];
        const auto by = client.transaction.id;
        if (cell.busy(by))
            return false;
        const Key old = expired(cell.seen(by)) ? Key{} : cell.seen(by);
        if (step.call == Call::complete && old.state == "done" && old.fence == step.fence && old.response == step.response)
            return true;
        if (old.state != "progress" || old.fence != step.fence) {
            step.sqlstate = "ID001";
            return true;
        }
        if (step.call == Call::step) {
            const auto stored = old.steps.find(step.step_name);
            const bool done = stored != old.steps.end() && !stored->second.empty();
            if (done && !step.response.empty() && stored->second != step.response) {
                step.sqlstate = "ID001";
                return true;
            }
            step.outcome = stored == old.steps.end() || (!done && !step.response.empty()) ? "t" : "f";
            if (step.outcome == "f")
                return true;
        }
        auto &row = cell.change(by);
        if (step.call == Call::step)
            row.steps[step.step_name] = step.response;
        if (step.call == Call::renew)
            row.lease_until = now_ + step.lease;
        if (step.call == Call::release) {
            row.state = "released";
            row.claimed_here = false;
            if (row.steps.empty())
                row.fingerprint.clear();
        }
        if (step.call == Call::complete) {
            row.state = "done";
            row.claimed_here = false;
            row.response = step.response;
            row.expires = now_ + row.retention;
            client.transaction.effects.push_back({step.key, by, step.fence});
        }
        return true;
    }

    bool lock(Client &client, Step &step) {
        auto &cell = locks_[step.key];
        const auto by = client.transaction.id;
        if (cell.busy(by) || asserted_[step.key].contains(other_than(step.key, by)))
            return true; // busy
        const auto old = cell.seen(by);
        if (old.held && !step.owner.empty() && old.owner == step.owner) {
            cell.change(by).until = now_ + step.lease;
            step.fence_given = old.fence;
        } else if (!old.held || old.until <= now_) {
            auto &row = cell.change(by);
            row = {true, step.owner, draw_fence(), now_ + step.lease};
            step.fence_given = row.fence;
        } else {
            return true;
        }
        client.locks.push_back({step.key, *step.fence_given});
        return true;
    }

    // Whoever asserted the fence and is still open, but for the asker; 0 if nobody.
    std::uint64_t other_than(const std::string &lock, std::uint64_t by) {
        auto &asserters = asserted_[lock];
        std::erase_if(asserters, [&](std::uint64_t one) {
            return std::none_of(clients_.begin(), clients_.end(),
                                [&](const Client &client) { return client.in_transaction && client.transaction.id == one; });
        });
        for (const auto one : asserters)
            if (one != by)
                return one;
        return 0;
    }

    bool lock_change(Client &client, Step &step) {
        auto &cell = locks_[step.key];
        const auto by = client.transaction.id;
        if (cell.busy(by) || (step.call == Call::unlock && other_than(step.key, by) != 0))
            return false;
        const auto old = cell.seen(by);
        const bool mine = old.held && old.fence == step.fence;
        if (step.call == Call::assert_fence) {
            if (mine)
                asserted_[step.key].insert(by);
            else
                step.sqlstate = "ID001";
            return true;
        }
        step.outcome = mine ? "t" : "f";
        if (mine && step.call == Call::renew_lock)
            cell.change(by).until = now_ + step.lease;
        if (mine && step.call == Call::unlock)
            cell.change(by) = {};
        return true;
    }

    bool transition(Client &client, Step &step) {
        auto &cell = orders_[step.key];
        const auto by = client.transaction.id;
        if (cell.busy(by))
            return false;
        const auto from = cell.seen(by).state;
        const auto &allowed = history_.setup.transitions;
        if (from == step.to_state) {
            step.outcome = "already";
        } else if (std::find(allowed.begin(), allowed.end(), std::pair(from, step.to_state)) == allowed.end()) {
            step.outcome = "not_allowed";
        } else {
            step.outcome = "moved";
            cell.change(by).state = step.to_state;
            client.moves.push_back({step.key, from, step.to_state});
        }
        return true;
    }

    bool adjust(Client &client, Step &step) {
        auto &cell = stock_[step.key];
        const auto by = client.transaction.id;
        if (cell.busy(by))
            return false;
        const auto left = cell.seen(by).left + step.delta;
        step.outcome = left < 0 ? "out_of_range" : "adjusted";
        if (left >= 0) {
            cell.change(by).left = left;
            step.value_given = left;
        }
        return true;
    }

    const Simulation simulation_;
    std::mt19937_64 random_;
    History history_;
    Nanoseconds now_ = 0;
    int started_ = 0;
    std::int64_t fence_ = 1'000'000'000;
    std::vector<Client> clients_;
    Table<Key> keys_;
    Table<Lock> tokens_, locks_;
    Table<Order> orders_;
    Table<Article> stock_;
    Table<Message> messages_;
    std::map<std::string, std::set<std::uint64_t>> asserted_;
};

} // namespace

History simulate(const Simulation &simulation) { return Store(simulation).run(); }

} // namespace chaos
