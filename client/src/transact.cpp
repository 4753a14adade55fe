#include <idem/transact.hpp>

#include <algorithm>
#include <thread>

#include "access.hpp"
#include "bounded.hpp"
#include "key_statements.hpp"

namespace idem::detail {

namespace {

constexpr std::chrono::milliseconds kPollInterval{20};

} // namespace

flow::flow(client &db, const flow_options &options)
    : db_(db), options_(options), retry_(options.retry ? *options.retry : db.options().retry), loop_(retry_) {}

void flow::open(const std::vector<command> &first) { tx_ = access::begin(db_, options_.level, first); }

void flow::begin() { open({}); }

const rows &flow::begin(const command &first) {
    about_ = first.about;
    open({first});
    return access::opening(*tx_).at(0);
}

std::vector<rows> flow::commit(const std::vector<command> &last) {
    committing_ = true;
    std::vector<rows> answers = access::finish(*tx_, last);
    committing_ = false;
    tx_.reset();
    return answers;
}

void flow::failed(const std::exception_ptr &problem, bool can_verify_commit) {
    const verdict what = judge(problem);
    // The work may have used other connections, and libpqxx reports other failures as a broken connection too.
    const bool elsewhere =
        what == verdict::connection_lost ? tx_ && !tx_->lost() : what == verdict::commit_unknown && !committing_;
    committing_ = false;
    tx_.reset();
    if (elsewhere)
        std::rethrow_exception(problem);
    commit_unknown_ = commit_unknown_ || what == verdict::commit_unknown;
    connection_lost_ = connection_lost_ || what != verdict::transient;
    try {
        loop_.failed(problem, can_verify_commit);
    } catch (const error &e) {
        if (commit_unknown_)
            throw_if_inconclusive(e, about_);
        throw;
    }
}

void flow::conflicted(const std::string &sqlstate, const std::string &message, const std::exception_ptr &give_up) {
    tx_.reset();
    loop_.conflicted(sqlstate, message, give_up);
}

bool flow::wait_for_lost_transaction() {
    if (!connection_lost_)
        return false;
    const auto now = std::chrono::steady_clock::now();
    if (!waiting_since_)
        waiting_since_ = now;
    if (now - *waiting_since_ >= bounded(*wait(duration::zero()).bound))
        return false;
    std::this_thread::sleep_for(kPollInterval);
    return true;
}

wait_limit flow::wait(wait_limit asked) const {
    if (connection_lost_ && asked.bound) {
        asked.bound = std::max(*asked.bound, options_.recovery_wait);
        if (const auto left = loop_.time_left())
            asked.bound = std::min(*asked.bound, *left);
    }
    return asked;
}

} // namespace idem::detail
