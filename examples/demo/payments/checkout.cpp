#include "checkout.hpp"

#include <thread>

namespace demo::payments {

void Rendezvous::wait_for_both() {
    if (arrived_.fetch_add(1) + 1 >= 2) {
        arrived_.notify_all();
        return;
    }
    arrived_.wait(1);
}

void Rendezvous::abandon() {
    first_has_ended();
    arrived_ = 2;
    arrived_.notify_all();
}

void Rendezvous::advance(Stage stage) {
    stage_ = stage;
    stage_.notify_all();
}

void Rendezvous::wait_for(Stage stage) {
    for (Stage now = stage_; now < stage; now = stage_)
        stage_.wait(now);
}

void Checkout::prepare(pqxx::connection &connection) {
    connection.prepare("insert_order",
                       "INSERT INTO orders (request_id, customer, amount_cents) VALUES ($1, $2, $3) RETURNING id");
    connection.prepare("insert_charge",
                       "INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)"
                       " RETURNING jsonb_build_object('order', order_id, 'charge', id, 'amount_cents', amount_cents)");
}

std::string Checkout::charge(pqxx::work &transaction) {
    if (request_.first)
        rendezvous_.first_is_running();
    std::this_thread::sleep_for(request_.gateway_time);

    const auto order =
        one_row(exec_prepared(transaction, "insert_order", request_.key, request_.customer, request_.amount_cents));
    if (mishap_ == Mishap::kill_backend)
        kill_backend();
    const auto charge =
        one_row(exec_prepared(transaction, "insert_charge", order[0].as<std::int64_t>(), request_.amount_cents));
    response_ = charge[0].as<std::string>();
    return response_;
}

void Checkout::commit(pqxx::work &transaction) {
    if (mishap_ == Mishap::lose_reply)
        session_.lose_replies();
    if (mishap_ == Mishap::close_socket)
        session_.close_socket();
    transaction.commit();
}

void Checkout::kill_backend() {
    pqxx::nontransaction kill{killer_.connection()};
    kill.exec("SELECT pg_terminate_backend(" + std::to_string(session_.connection().backendpid()) + ")");
}

} // namespace demo::payments
