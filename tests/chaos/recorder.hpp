// One transaction of a client, recorded as it goes. Whatever way it ends, the record is in the client's log when the recorder
// is gone (a prepared one: with the coordinator).
#pragma once

#include <cstddef>

#include "calls.hpp"
#include "client.hpp"

namespace chaos {

class Recorder {
  public:
    // BEGIN, at a level by chance.
    explicit Recorder(Client &client);
    // Rolls back what has not ended.
    ~Recorder();
    Recorder(const Recorder &) = delete;
    Recorder &operator=(const Recorder &) = delete;

    // False once the transaction has ended, by an error too.
    bool is_open() const { return open_; }
    std::uint64_t id() const { return transaction_.id; }

    // An error within a savepoint goes back to it; any other ends the transaction.
    Step ask(Step step, const Manner &manner = {});
    // Claims of one scope and retention, by one call.
    std::vector<Step> ask_batch(std::vector<Step> claims);
    void leave_effect(const std::string &key, std::int64_t fence = 0);
    void leave_effects(const std::vector<std::string> &keys);

    // One at a time.
    void savepoint();
    void release_savepoint();
    void roll_back_to_savepoint();

    // Whether it is known to have committed.
    bool commit();
    void roll_back();
    void prepare();
    // Closes the connection in the middle of it.
    void hang_up();
    // Commits, mostly; or one of the others.
    bool end_somehow();

    // A call that is a transaction of its own.
    static Step alone(Client &client, Step step, const Manner &manner = {});

  private:
    struct Alone {};
    Recorder(Client &client, Alone);
    Step put(Step step, const Manner &manner, bool is_alone);
    // What an answer to a call does to the transaction.
    void follow(const Answer &answer, bool is_alone);
    bool control(const std::string &sql, const std::vector<Value> &values = {});
    void finding(const Step &step, const Answer &answer);
    void end(Fate fate, bool certain_when);

    Client &client_;
    Transaction transaction_;
    bool open_ = false;
    bool in_savepoint_ = false;
    std::size_t steps_before_ = 0, effects_before_ = 0; // the savepoint
};

} // namespace chaos
