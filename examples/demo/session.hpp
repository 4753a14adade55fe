// One client's database connection, and the ways in which the demo breaks it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "libpqxx.hpp"

namespace demo {

// A conninfo whose session finds the tables of `schema` first.
std::string shop_conninfo(const std::string &schema);

class Session {
  public:
    using Prepare = std::function<void(pqxx::connection &)>;

    // `conninfo` is libpq's; what it leaves out comes from PGHOST, PGPORT, ... `prepare` names the statements of every
    // connection of this session. Throws pqxx::broken_connection.
    explicit Session(std::string conninfo, Prepare prepare = {});

    pqxx::connection &connection() { return *connection_; }
    bool broken() const { return !connection_->is_open(); }

    // A new connection in place of the old one.
    void reconnect();

    // From now on the server still hears this client, but the client no longer hears the server.
    void lose_replies();
    void close_socket();

  private:
    std::string conninfo_;
    Prepare prepare_;
    std::unique_ptr<pqxx::connection> connection_;
};

} // namespace demo
