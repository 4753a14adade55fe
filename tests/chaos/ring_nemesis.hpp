// What goes wrong around rings: windows are opened much too early while clients claim and sessions are paused, and a scope
// moves into its ring and out of it. The threads are its own, so that a wait for a lock holds up no other nemesis.
#pragma once

#include <atomic>
#include <thread>

#include "connection.hpp"
#include "round.hpp"

namespace chaos {

class RingNemesis {
  public:
    explicit RingNemesis(Round &round);
    ~RingNemesis();

  private:
    void rotate();
    void rotate_once(Connection &connection);
    void move_scopes();
    // False: the server is gone, or the statement was ended.
    bool ask(Connection &connection, const char *application, const std::string &sql);
    void sleep_until(Nanoseconds until) const;

    Round &round_;
    std::atomic<bool> stopping_{false};
    std::thread rotating_, moving_; // last: they use all of it
};

} // namespace chaos
