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

void pass_notice(void *options, const PGresult *notice) {
    const client_options &to = *static_cast<const client_options *>(options);
    try {
        to.on_notice(field(notice, PG_DIAG_SEVERITY_NONLOCALIZED), field(notice, PG_DIAG_MESSAGE_PRIMARY));
    } catch (...) {
        // libpq is C and cannot be unwound.
    }
}

// The SQLSTATE does not tell: a function may raise any, and dblink and postgres_fdw do raise class 08 for connections of
// theirs.
bool ends_connection(const PGresult *result) {
    const std::string severity = field(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    return severity == "FATAL" || severity == "PANIC";
}

} // namespace

session::session(client_state &owner) : owner_(owner) {
    const client_options &options = owner.options();
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
    if (PQstatus(raw_.get()) != CONNECTION_OK) {
        throw connection_lost("08001", error_of(raw_.get()));
    }
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

bool session::hung_up() noexcept {
    if (broken())
        return true;
    // What lies there to be read may be a notice, or the answer to the ROLLBACK; or it is the server's farewell.
    for (pollfd socket{PQsocket(raw_.get()), POLLIN, 0}; !broken() && poll(&socket, 1, 0) > 0;)
        if (!PQconsumeInput(raw_.get()))
            discard();
    return broken();
}

bool session::broken() const noexcept { return discarded_ || running_ || !adopted_->get().is_open(); }

bool session::between_transactions() const noexcept {
    return !broken() && !unsettled_ && PQtransactionStatus(raw_.get()) == PQTRANS_IDLE;
}

void session::discard() noexcept { discarded_ = true; }

void session::lost(const std::string &sqlstate, std::string message) {
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
            lost();
    }
}

void session::flush(const deadline_t &deadline) {
    for (;;) {
        const int left = PQflush(raw_.get());
        if (left < 0) {
            // The server may have said why before it hung up: keep reading.
            return;
        }
        if (left == 0)
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
            break; // PQgetResult tells
    }
    return result_ptr(PQgetResult(raw_.get()));
}

void session::settle(const deadline_t &deadline) {
    if (!unsettled_)
        return;
    while (result_ptr answer = receive(deadline))
        if (PQresultStatus(answer.get()) != PGRES_COMMAND_OK)
            lost(field(answer.get(), PG_DIAG_SQLSTATE), message_of(answer.get()));
    synchronize(deadline);
    unsettled_ = false;
}

void session::synchronize(const deadline_t &deadline) {
    const result_ptr point = receive(deadline);
    if (!point || PQresultStatus(point.get()) != PGRES_PIPELINE_SYNC)
        lost();
}

void session::abandon() noexcept {
    if (broken() || between_transactions())
        return;
    if (PQenterPipelineMode(raw_.get()) &&
        PQsendQueryParams(raw_.get(), "ROLLBACK", 0, nullptr, nullptr, nullptr, nullptr, 0) && PQpipelineSync(raw_.get()) &&
        PQflush(raw_.get()) >= 0)
        unsettled_ = true;
    else
        discard();
}

void session::send(const command &command, const named_text &what, bool prepare) {
    std::vector<const char *> values;
    values.reserve(command.values.size());
    for (const parameter &value : command.values)
        values.push_back(value ? value->c_str() : nullptr);
    const int count = static_cast<int>(values.size());
    if (prepare ? !PQsendQueryPrepared(raw_.get(), what.name.c_str(), count, values.data(), nullptr, nullptr, 0)
                : !PQsendQueryParams(raw_.get(), what.text.c_str(), count, nullptr, values.data(), nullptr, nullptr, 0))
        lost();
}

std::vector<rows> session::run(const std::vector<command> &commands, deadline_t deadline) {
    for (const command &command : commands)
        refuse_unsendable(command);
    std::vector<const named_text *> texts;
    texts.reserve(commands.size());
    // Names first: looking them up is a round trip of its own.
    for (const command &command : commands)
        texts.push_back(&owner_.resolve(*command.what, *this));
    const auto keyed =
        std::find_if(commands.begin(), commands.end(), [](const command &each) { return !each.about.key.empty(); });
    about_ = keyed == commands.end() ? subject{} : keyed->about;
    if (broken())
        lost();

    running_ = true;
    const bool prepare = owner_.prepares();
    if (!PQenterPipelineMode(raw_.get()))
        lost();
    std::vector<bool> prepares(commands.size());
    std::unordered_set<const statement *> sent;
    for (std::size_t i = 0; i < commands.size(); ++i) {
        const statement *what = commands[i].what;
        prepares[i] = prepare && prepared_.count(what) == 0 && sent.insert(what).second;
        if (prepares[i] && !PQsendPrepare(raw_.get(), texts[i]->name.c_str(), texts[i]->text.c_str(), 0, nullptr))
            lost();
        send(commands[i], *texts[i], prepare);
    }
    if (!PQpipelineSync(raw_.get()))
        lost();
    flush(deadline);
    settle(deadline);

    std::vector<rows> answers;
    std::string sqlstate, message;
    subject about;
    bool ended = false;
    const auto note = [&](const PGresult *result, const subject &of) {
        if (ended || (!sqlstate.empty() && !ends_connection(result)))
            return;
        ended = ends_connection(result);
        sqlstate = field(result, PG_DIAG_SQLSTATE);
        message = message_of(result);
        about = of;
        if (sqlstate.empty()) // libpq's own
            lost();
    };
    for (std::size_t i = 0; i < commands.size(); ++i)
        for (int step = prepares[i] ? 0 : 1; step < 2; ++step)
            while (result_ptr result = receive(deadline)) {
                const ExecStatusType status = PQresultStatus(result.get());
                if (status == PGRES_FATAL_ERROR)
                    note(result.get(), commands[i].about);
                else if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
                    if (step == 0)
                        prepared_.insert(commands[i].what);
                    else if (std::string_view tag = PQcmdStatus(result.get()); tag == "ROLLBACK")
                        answers.push_back({{std::string(tag)}});
                    else
                        answers.push_back(rows_of(result.get()));
                }
            }
    if (ended)
        lost(sqlstate, message);
    if (PQstatus(raw_.get()) != CONNECTION_OK)
        lost();
    synchronize(deadline);
    if (!PQexitPipelineMode(raw_.get()))
        lost();
    running_ = false;

    if (!sqlstate.empty()) {
        if (prepare && (sqlstate == "26000" || sqlstate == "42P05")) {
            owner_.stop_preparing();
            discard();
            throw transient("40001", "a pooler lost a prepared statement: " + message, about);
        }
        // The connection is whole, whatever the error says of others.
        if (sqlstate.compare(0, 2, "08") == 0 || sqlstate.compare(0, 2, "57") == 0)
            if (sqlstate != "57014")
                throw error(sqlstate, message, about);
        throw_error(sqlstate, message, about);
    }
    return answers;
}

} // namespace idem::detail
