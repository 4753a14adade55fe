#include "session.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <string_view>

#include "client_state.hpp"

namespace idem::detail {

namespace {

std::string field(const PGresult *result, int code) {
    const char *text = PQresultErrorField(result, code);
    return text ? text : "";
}

std::string message_of(const PGresult *result) {
    std::string message = field(result, PG_DIAG_MESSAGE_PRIMARY);
    if (message.empty())
        message = PQresultErrorMessage(result);
    for (auto [code, label] : {std::pair{PG_DIAG_MESSAGE_DETAIL, "\nDETAIL:  "}, std::pair{PG_DIAG_MESSAGE_HINT, "\nHINT:  "}})
        if (std::string more = field(result, code); !more.empty())
            message += label + more;
    return message;
}

std::string error_of(const PGconn *raw) {
    std::string message = PQerrorMessage(raw);
    while (!message.empty() && message.back() == '\n')
        message.pop_back();
    return message;
}

rows rows_of(const PGresult *result) {
    rows all(static_cast<std::size_t>(PQntuples(result)));
    const int columns = PQnfields(result);
    for (int i = 0; i < PQntuples(result); ++i) {
        all[static_cast<std::size_t>(i)].reserve(static_cast<std::size_t>(columns));
        for (int j = 0; j < columns; ++j)
            if (PQgetisnull(result, i, j))
                all[static_cast<std::size_t>(i)].emplace_back();
            else
                all[static_cast<std::size_t>(i)].emplace_back(
                    std::string(PQgetvalue(result, i, j), static_cast<std::size_t>(PQgetlength(result, i, j))));
    }
    return all;
}

/// A ROLLBACK is the one command whose answer says more than its rows: COMMIT may be answered with it.
rows answer_of(PGresult *result) {
    if (const std::string tag = PQcmdStatus(result); tag == "ROLLBACK")
        return {{tag}};
    return rows_of(result);
}

bool succeeded(const PGresult *result) {
    const ExecStatusType status = PQresultStatus(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/// What errors of the whole batch are about.
subject first_key(const std::vector<command> &commands) {
    for (const command &command : commands)
        if (!command.about.key.empty())
            return command.about;
    return {};
}

void pass_notice(void *options, const PGresult *notice) {
    const client_options &to = *static_cast<const client_options *>(options);
    try {
        to.on_notice(field(notice, PG_DIAG_SEVERITY_NONLOCALIZED), field(notice, PG_DIAG_MESSAGE_PRIMARY));
    } catch (...) {
        // libpq is C and cannot be unwound.
    }
}

// The SQLSTATE is no criterion: a function may raise any, and dblink and postgres_fdw raise class 08 for their own connections.
bool ends_connection(const PGresult *result) {
    const std::string severity = field(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    return severity == "FATAL" || severity == "PANIC";
}

} // namespace

session::session(client_state &client) : client_(client) {
    const client_options &options = client.options();
    const std::string timeout = std::to_string(options.connect_timeout.count());
    std::vector<const char *> keywords, values;
    if (options.connect_timeout.count() > 0) {
        keywords.push_back("connect_timeout");
        values.push_back(timeout.c_str());
    }
    keywords.insert(keywords.end(), {"fallback_application_name", "dbname", "client_encoding", nullptr});
    values.insert(values.end(), {"idem", options.dsn.c_str(), "UTF8", nullptr});
    raw_.reset(PQconnectdbParams(keywords.data(), values.data(), 1));
    if (!raw_)
        throw std::bad_alloc();
    if (PQstatus(raw_.get()) != CONNECTION_OK)
        throw connection_lost("08001", error_of(raw_.get()));
    adopted_ = std::make_unique<adopted_connection>(raw_.get());
    if (options.on_notice)
        PQsetNoticeReceiver(raw_.get(), pass_notice, const_cast<client_options *>(&options));
    if (options.on_connect)
        options.on_connect(adopted_->get());
}

session::~session() {
    if (adopted_ && adopted_->freed())
        static_cast<void>(raw_.release());
}

bool session::closed_by_server() noexcept {
    if (broken())
        return true;
    // Unread input may be a notice or the answer to a ROLLBACK, and not only the server's last message.
    for (pollfd socket{PQsocket(raw_.get()), POLLIN, 0}; !broken() && poll(&socket, 1, 0) > 0;)
        if (!PQconsumeInput(raw_.get()))
            discard();
    return broken();
}

bool session::broken() const noexcept { return discarded_ || running_ || !adopted_->get().is_open(); }

bool session::between_transactions() const noexcept {
    return !broken() && !rollback_pending_ && PQtransactionStatus(raw_.get()) == PQTRANS_IDLE;
}

void session::discard() noexcept { discarded_ = true; }

void session::throw_connection_lost(const std::string &sqlstate, std::string message) {
    if (adopted_->freed())
        message = "the connection was closed";
    else if (message.empty())
        message = error_of(raw_.get());
    discard();
    throw connection_lost(sqlstate.empty() ? "08006" : sqlstate, message.empty() ? "the connection was lost" : message, about_);
}

void session::wait_for_socket(bool also_writable, const deadline_t &deadline) {
    pollfd socket{PQsocket(raw_.get()), static_cast<short>(POLLIN | (also_writable ? POLLOUT : 0)), 0};
    for (;;) {
        int timeout = -1;
        if (deadline) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
            if (left.count() <= 0) {
                discard();
                throw connection_lost("08006", "the server did not answer in time", about_);
            }
            timeout = static_cast<int>(std::min<std::chrono::milliseconds::rep>(left.count(), 60'000));
        }
        const int ready = poll(&socket, 1, timeout);
        if (ready > 0)
            return;
        if (ready < 0 && errno != EINTR)
            throw_connection_lost();
    }
}

void session::flush(const deadline_t &deadline) {
    for (;;) {
        const int left = PQflush(raw_.get());
        if (left <= 0) // after a failure too: the server may have sent the reason, which is still to be read
            return;
        wait_for_socket(true, deadline);
        if (!PQconsumeInput(raw_.get()))
            return;
    }
}

session::result_ptr session::receive(const deadline_t &deadline) {
    while (PQisBusy(raw_.get())) {
        wait_for_socket(false, deadline);
        if (!PQconsumeInput(raw_.get()))
            break; // PQgetResult reports it
    }
    return result_ptr(PQgetResult(raw_.get()));
}

void session::finish_rollback(const deadline_t &deadline) {
    for (; rollback_answers_ > 0; --rollback_answers_)
        while (result_ptr answer = receive(deadline))
            if (PQresultStatus(answer.get()) != PGRES_COMMAND_OK)
                throw_connection_lost(field(answer.get(), PG_DIAG_SQLSTATE), message_of(answer.get()));
    if (rollback_pending_)
        read_sync_point(deadline);
    rollback_pending_ = false;
}

void session::read_sync_point(const deadline_t &deadline) {
    const result_ptr point = receive(deadline);
    if (!point || PQresultStatus(point.get()) != PGRES_PIPELINE_SYNC)
        throw_connection_lost();
}

void session::abandon() noexcept {
    if (broken() || between_transactions())
        return;
    if (PQenterPipelineMode(raw_.get()) && send_rollback() && PQpipelineSync(raw_.get()) && PQflush(raw_.get()) >= 0)
        rollback_pending_ = true;
    else
        discard();
}

// A duplicate's transaction ends with it, so it is prepared like the statements before it.
bool session::send_rollback() {
    static constexpr const char *kName = "idem_tx_rollback";
    rollback_answers_ = 1;
    if (!client_.prepares())
        return PQsendQueryParams(raw_.get(), "ROLLBACK", 0, nullptr, nullptr, nullptr, nullptr, 0);
    if (!rollback_is_prepared_) {
        if (!PQsendPrepare(raw_.get(), kName, "ROLLBACK", 0, nullptr))
            return false;
        rollback_is_prepared_ = true;
        rollback_answers_ = 2;
    }
    return PQsendQueryPrepared(raw_.get(), kName, 0, nullptr, nullptr, nullptr, 0);
}

std::vector<rows> session::run(const std::vector<command> &commands, deadline_t deadline) {
    for (const command &command : commands)
        reject_unsendable(command);
    batch sent{commands, resolve(commands), client_.prepares(), {}, {}, {}};
    about_ = first_key(commands);
    if (broken())
        throw_connection_lost();

    running_ = true;
    send(sent);
    flush(deadline);
    finish_rollback(deadline);
    receive_answers(sent, deadline);
    end_pipeline(sent, deadline);
    running_ = false;

    if (!sent.failure.sqlstate.empty())
        throw_failure(sent);
    return std::move(sent.answers);
}

// Before anything is sent: looking up a name may be a round trip of its own.
std::vector<const resolved_statement *> session::resolve(const std::vector<command> &commands) {
    std::vector<const resolved_statement *> texts;
    texts.reserve(commands.size());
    for (const command &command : commands)
        texts.push_back(&client_.resolve(*command.what, *this));
    return texts;
}

void session::send(batch &all) {
    if (!PQenterPipelineMode(raw_.get()))
        throw_connection_lost();
    all.prepares.resize(all.commands.size());
    std::unordered_set<const statement *> seen;
    for (std::size_t i = 0; i < all.commands.size(); ++i) {
        const statement *what = all.commands[i].what;
        const resolved_statement &text = *all.texts[i];
        all.prepares[i] = all.by_name && prepared_.count(what) == 0 && seen.insert(what).second;
        if (all.prepares[i] && !PQsendPrepare(raw_.get(), text.name.c_str(), text.text.c_str(), 0, nullptr))
            throw_connection_lost();
        send(all.commands[i], text, all.by_name);
    }
    if (!PQpipelineSync(raw_.get()))
        throw_connection_lost();
}

void session::send(const command &command, const resolved_statement &text, bool by_name) {
    std::vector<const char *> values;
    values.reserve(command.values.size());
    for (const parameter &value : command.values)
        values.push_back(value ? value->c_str() : nullptr);
    const int count = static_cast<int>(values.size());
    if (by_name ? !PQsendQueryPrepared(raw_.get(), text.name.c_str(), count, values.data(), nullptr, nullptr, 0)
                : !PQsendQueryParams(raw_.get(), text.text.c_str(), count, nullptr, values.data(), nullptr, nullptr, 0))
        throw_connection_lost();
}

void session::receive_answers(batch &sent, const deadline_t &deadline) {
    const auto receive_each = [&](const subject &about, const auto &use) {
        while (const result_ptr result = receive(deadline))
            if (succeeded(result.get()))
                use(result.get());
            else
                note_failure(sent.failure, result.get(), about);
    };
    for (std::size_t i = 0; i < sent.commands.size(); ++i) {
        const command &command = sent.commands[i];
        if (sent.prepares[i])
            receive_each(command.about, [&](PGresult *) { prepared_.insert(command.what); });
        receive_each(command.about, [&](PGresult *result) { sent.answers.push_back(answer_of(result)); });
    }
}

// The first error counts, unless a later one ends the connection.
void session::note_failure(server_error &failure, const PGresult *result, const subject &about) {
    if (PQresultStatus(result) != PGRES_FATAL_ERROR) // skipped, because an earlier command failed
        return;
    const bool ends = ends_connection(result);
    if (failure.ends_connection || (!failure.sqlstate.empty() && !ends))
        return;
    failure = {field(result, PG_DIAG_SQLSTATE), message_of(result), about, ends};
    if (failure.sqlstate.empty()) // libpq's own error: the connection broke
        throw_connection_lost();
}

void session::end_pipeline(batch &sent, const deadline_t &deadline) {
    if (sent.failure.ends_connection)
        throw_connection_lost(sent.failure.sqlstate, sent.failure.message);
    if (PQstatus(raw_.get()) != CONNECTION_OK)
        throw_connection_lost();
    result_ptr point = receive(deadline);
    // Statements outside a transaction block commit at the sync point, and a deferred check may fail there.
    if (point && PQresultStatus(point.get()) == PGRES_FATAL_ERROR) {
        note_failure(sent.failure, point.get(), about_);
        if (sent.failure.ends_connection)
            throw_connection_lost(sent.failure.sqlstate, sent.failure.message);
        point = receive(deadline);
        if (!point) // the end of the error's results
            point = receive(deadline);
    }
    if (!point || PQresultStatus(point.get()) != PGRES_PIPELINE_SYNC)
        throw_connection_lost();
    if (!PQexitPipelineMode(raw_.get()))
        throw_connection_lost();
}

void session::throw_failure(const batch &sent) {
    const auto &[sqlstate, message, about, ends_connection] = sent.failure;
    if (sent.by_name && (sqlstate == "26000" || sqlstate == "42P05")) {
        client_.stop_preparing();
        discard();
        throw transient("40001", "a pooler lost a prepared statement: " + message, about);
    }
    // This connection is whole: an error of these classes is about another one, such as dblink's.
    if (sqlstate.compare(0, 2, "08") == 0 || (sqlstate.compare(0, 2, "57") == 0 && sqlstate != "57014"))
        throw error(sqlstate, message, about);
    throw_error(sqlstate, message, about);
}

} // namespace idem::detail
