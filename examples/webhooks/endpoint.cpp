// A webhook endpoint: POST /webhooks/SOURCE. Each webhook is credited once, however often it is delivered.
//
// libpq's environment (PGHOST, PGUSER ...) names the database; its tables are those of shop.sql.
// usage: idem-webhooks PORT
#include <httplib.h>

#include <cstdlib>
#include <iostream>

#include <idem/idem.hpp>

namespace {

using idem::webhook_outcome;

// The claim of the webhook and its effect are one transaction.
webhook_outcome receive(idem::client &db, const idem::webhook &received) {
    return idem::transact(db, [&](idem::transaction &tx) {
        const idem::webhook_answer answer = receive_webhook(tx, received);
        if (answer.outcome == webhook_outcome::accepted)
            tx.exec("INSERT INTO credit (event, amount) SELECT body ->> 'id', (body ->> 'amount')::int FROM (VALUES (" +
                    tx.quote(received.body) + "::jsonb)) AS v (body)");
        return answer.outcome;
    });
}

// The sender comes again unless the answer is 2xx.
int status_of(webhook_outcome outcome) {
    return outcome == webhook_outcome::accepted || outcome == webhook_outcome::duplicate ? 200 : 401;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::cerr << "usage: idem-webhooks PORT\n";
        return EXIT_FAILURE;
    }
    httplib::Server server;
    server.set_payload_max_length(4 << 20);
    server.Post(R"(/webhooks/([\w-]+))", [](const httplib::Request &request, httplib::Response &response) {
        thread_local idem::client db;
        const webhook_outcome outcome =
            receive(db, {request.matches[1], {request.headers.begin(), request.headers.end()}, request.body});
        response.status = status_of(outcome);
        response.set_content(name(outcome), "text/plain");
    });
    // Committed or not, nobody knows: the next delivery is a duplicate, or new.
    server.set_exception_handler(
        [](const httplib::Request &, httplib::Response &response, std::exception_ptr) { response.status = 503; });
    return server.listen("127.0.0.1", std::atoi(argv[1])) ? EXIT_SUCCESS : EXIT_FAILURE;
}
