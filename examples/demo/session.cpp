#include "session.hpp"

#include <sys/socket.h>

#include <utility>

namespace demo {

// The timeout is there so that a demo that goes wrong ends and says so.
std::string shop_conninfo(const std::string &schema) {
    return "options='-c search_path=" + schema + ",idem -c statement_timeout=30s'";
}

Session::Session(std::string conninfo, Prepare prepare) : conninfo_{std::move(conninfo)}, prepare_{std::move(prepare)} {
    reconnect();
}

void Session::reconnect() {
    connection_ = std::make_unique<pqxx::connection>(conninfo_);
    idem::detail::stay_lost(*connection_);
    if (prepare_)
        prepare_(*connection_);
}

void Session::lose_replies() { ::shutdown(connection_->sock(), SHUT_RD); }

void Session::close_socket() { ::shutdown(connection_->sock(), SHUT_RDWR); }

} // namespace demo
