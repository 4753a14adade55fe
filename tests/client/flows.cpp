#include "flows.hpp"

#include <idem/consume.hpp>
#include <idem/http.hpp>
#include <idem/machines.hpp>
#include <idem/once.hpp>
#include <idem/rows.hpp>
#include <idem/tokens.hpp>

namespace test {

namespace {

using setting = flow_setting;
using work = flow_work;

const idem::row kOne{{"id", 1}};

std::string http(idem::client &db, const idem::http_request &request, const work &w, const idem::flow_options &o) {
    const idem::http_response response = idem::handle_http(db, request, idem::http_options{o}, [&](idem::transaction &tx) {
        w(tx);
        return idem::http_response{201};
    });
    if (response.status != 201)
        return "rejected";
    return response.headers.empty() ? "new" : "replayed";
}

} // namespace

const std::vector<transaction_flow> &transaction_flows() {
    static const std::vector<transaction_flow> all{
        {"transact", "done", "again", nullptr,
         [](idem::client &db, const setting &, const work &w, const idem::flow_options &o) {
             return idem::transact(db, o, [&](idem::transaction &tx) {
                 w(tx);
                 return std::string("done");
             });
         }},
        {"once", "new", "replayed", "new",
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             return std::string(idem::once(db, idem::request{s.word}, o, w).replayed ? "replayed" : "new");
         }},
        {"handle_http", "new", "replayed", "replayed",
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             return http(db, {"tests", "POST", "/orders", s.token}, w, o); // a header cannot contain the word
         }},
        {"handle_http_put", "new", "again", nullptr,
         [](idem::client &db, const setting &, const work &w, const idem::flow_options &o) {
             return http(db, {"tests", "PUT", "/orders/1", std::nullopt}, w, o);
         }},
        {"optimistic", "updated", "again", nullptr,
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             return std::string(
                 name(idem::optimistic(db, s.rows.table(), kOne, o, [&](idem::transaction &tx, const std::string &) {
                          w(tx);
                          return idem::row{{"kind", "read"}};
                      }).outcome));
         }},
        {"pessimistic", "done", "again", nullptr,
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             return idem::pessimistic(db, s.rows.table(), kOne, idem::duration(0), o,
                                      [&](idem::transaction &tx, const std::string &) {
                                          w(tx);
                                          return std::string("done");
                                      });
         }},
        {"conditional", "updated", "conflict", nullptr,
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             return std::string(name(idem::conditional(db, s.rows.table(), kOne, {{"kind", "thing"}}, {{"kind", "taken"}}, o,
                                                       [&](idem::transaction &tx, const std::string &) { w(tx); })
                                         .outcome));
         }},
        {"unique", "inserted", "duplicate", nullptr,
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             return std::string(name(idem::unique(db, s.rows.table(), {{"id", 3}, {"sku", "A-3"}}, {}, o,
                                                  [&](idem::transaction &tx, const std::string &) { w(tx); })
                                         .outcome));
         }},
        {"guarded", "inserted", "duplicate", nullptr,
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             return std::string(name(idem::guarded(db, s.rows.table(), {{"id", 3}, {"sku", "A-3"}, {"kind", "rare"}}, {"kind"},
                                                   o, [&](idem::transaction &tx, const std::string &) { w(tx); })
                                         .outcome));
         }},
        {"transition", "moved", "already", nullptr,
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             return std::string(name(
                 idem::transition(db, s.rows.table(), kOne, std::nullopt, "paid", idem::transition_options{o}, w).outcome));
         }},
        {"with_token", "accepted", "duplicate", "duplicate",
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             return std::string(name(idem::with_token(db, s.token, "me", {o}, w)));
         }},
        {"consume", "new", "seen", "new",
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             idem::consume_options options;
             options.flow = o;
             return std::string(idem::consume(db, "tests", s.word, options, w) ? "new" : "seen");
         }},
        {"consume_many", "2", "0", "0",
         [](idem::client &db, const setting &s, const work &w, const idem::flow_options &o) {
             idem::consume_options options;
             options.flow = o;
             return std::to_string(idem::consume_many(db, "tests", {s.word, s.word + "'"}, options,
                                                      [&](idem::transaction &tx, const std::vector<std::string> &) { w(tx); })
                                       .size());
         }},
    };
    return all;
}

} // namespace test
