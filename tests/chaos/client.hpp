// One client: a thread, its connection, what it remembers and what it has recorded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../client/proxy.hpp"
#include "connection.hpp"
#include "coordinator.hpp"
#include "random.hpp"
#include "round.hpp"

namespace chaos {

// Something that the client was given under a lease, and has still to do.
struct Holding {
    Grant grant;
    Nanoseconds lease = 0;
    Nanoseconds due = 0; // when it goes on with it: in time, or when the lease may be over
};

class Client {
  public:
    // `proxied`: connects through a proxy that can cut; throws std::runtime_error when that could not be made.
    Client(Round &shared, Coordinator &decider, int which, bool proxied);

    // Does one thing after another until the round stops.
    void run();

    // Breaks the connection at one of the next messages, if there is a proxy and chance has it.
    void maybe_cut(double probability, int messages);

    Round &round;
    Coordinator &coordinator;
    const int number;
    Random random;
    Connection connection;
    std::vector<Holding> holdings;
    std::vector<Transaction> log;

  private:
    bool connect();
    void work_once();

    std::unique_ptr<test::proxy> proxy_;
    std::string dsn_;
    bool armed_ = false;
};

} // namespace chaos
