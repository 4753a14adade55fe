// What goes wrong around the clients: statements canceled, sessions thrown out, backends and the whole server killed,
// checkpoints and vacuums at odd moments; what goes wrong around rings is in ring_nemesis.hpp. (Cuts are made by the clients'
// proxies, prepared transactions left over by the coordinator.)
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "connection.hpp"
#include "ring_nemesis.hpp"
#include "round.hpp"

namespace chaos {

class Nemesis {
  public:
    explicit Nemesis(Round &round);
    // Ends with the server up.
    ~Nemesis();

    static const std::vector<std::string> &names();

  private:
    struct Trouble {
        Nanoseconds least, most; // between two of them
        std::function<void()> make;
        Nanoseconds due;
    };
    void add(const char *name, Nanoseconds least, Nanoseconds most, std::function<void()> make);
    void work();
    Answer ask(const std::string &sql);
    void crash();
    void kill_backend();
    void sweep();

    Round &round_;
    std::optional<RingNemesis> rings_;
    Random random_;
    Connection connection_;
    std::vector<Trouble> troubles_;
    std::atomic<bool> stopping_{false};
    std::thread thread_; // last: it uses all of it
};

} // namespace chaos
