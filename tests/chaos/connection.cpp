#include "connection.hpp"

#include <cerrno>
#include <libpq-fe.h>
#include <memory>
#include <poll.h>

namespace chaos {

namespace {

struct Clear {
    void operator()(PGresult *result) const { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, Clear>;

void no_notice(void *, const PGresult *) {}

void take_rows(Answer *answer, const PGresult *result) {
    for (int row = 0; row < PQntuples(result); row++) {
        std::vector<Value> fields;
        for (int column = 0; column < PQnfields(result); column++)
            fields.push_back(PQgetisnull(result, row, column) ? Value() : Value(PQgetvalue(result, row, column)));
        answer->rows.push_back(std::move(fields));
    }
}

// The first error counts: what follows it is only that the connection is gone.
void take_result(Answer *answer, const PGresult *result) {
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        take_rows(answer, result);
        answer->tag = PQcmdStatus(const_cast<PGresult *>(result));
        return;
    }
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (answer->sqlstate.empty() && code != nullptr) {
        answer->sqlstate = code;
        const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        answer->message = text != nullptr ? text : "";
    }
}

} // namespace

bool Connection::open(const std::string &dsn) {
    close();
    connection_ = PQconnectdb(dsn.c_str());
    if (PQstatus(connection_) != CONNECTION_OK) {
        close();
        return false;
    }
    PQsetNoticeReceiver(connection_, no_notice, nullptr);
    return true;
}

void Connection::close() {
    if (connection_ != nullptr)
        PQfinish(connection_);
    connection_ = nullptr;
}

// False: it failed.
bool Connection::wait_for_input(Nanoseconds until) {
    for (;;) {
        const Nanoseconds left = until - now();
        if (left <= 0)
            return false;
        pollfd socket{PQsocket(connection_), POLLIN, 0};
        const int ready = poll(&socket, 1, static_cast<int>(left / kMillisecond) + 1);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

Answer Connection::collect() {
    Answer answer;
    const Nanoseconds until = now() + kLongestAnswer;
    for (;;) {
        while (PQisBusy(connection_)) {
            if (!wait_for_input(until)) {
                answer.lost = answer.hung = true;
                return answer;
            }
            if (!PQconsumeInput(connection_)) {
                answer.lost = true;
                return answer;
            }
        }
        const Result result(PQgetResult(connection_));
        if (!result)
            break;
        take_result(&answer, result.get());
    }
    answer.lost = PQstatus(connection_) != CONNECTION_OK;
    return answer;
}

Answer Connection::run(const std::string &sql, const std::vector<Value> &values) {
    Answer answer;
    if (!is_open()) {
        answer.lost = true;
        return answer;
    }
    std::vector<const char *> texts;
    for (const Value &value : values)
        texts.push_back(value ? value->c_str() : nullptr);
    const int sent = values.empty() ? PQsendQuery(connection_, sql.c_str())
                                    : PQsendQueryParams(connection_, sql.c_str(), static_cast<int>(texts.size()), nullptr,
                                                        texts.data(), nullptr, nullptr, 0);
    if (sent)
        answer = collect();
    else
        answer.lost = true;
    if (answer.lost)
        close();
    return answer;
}

} // namespace chaos
