#include "session.hpp"

#include <sys/socket.h>

#include <utility>

namespace demo {

// The timeout is there so that a demo that goes wrong ends and says so.
std::string shop_conninfo(const std::string &schema) {
    return "options='-c search_path=" + schema + ",public -c statement_timeout=30s'";
}

Session::Session(std::string conninfo, Prepare prepare) : conninfo_{std::move(conninfo)}, prepare_{std::move(prepare)} {
    reconnect();
}

void Session::reconnect() {
    connection_ = std::make_unique<pqxx::connection>(conninfo_);
    // libpqxx 6 reconnects behind the caller's back, and the next statement would then run outside the transaction that
    // was lost. It deprecates the switch because version 7 no longer does it.
#include <pqxx/internal/ignore-deprecated-pre.hxx>
    connection_->inhibit_reactivation(true);
#include <pqxx/internal/ignore-deprecated-post.hxx>
    if (prepare_)
        prepare_(*connection_);
}

void Session::lose_replies() { ::shutdown(connection_->sock(), SHUT_RD); }

void Session::close_socket() { ::shutdown(connection_->sock(), SHUT_RDWR); }

} // namespace demo
