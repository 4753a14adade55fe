#include "way.hpp"

#include <thread>

namespace demo::forms {

void Submission::prepare(pqxx::connection &connection) {
    connection.prepare("insert_order", "INSERT INTO orders (form_id, customer) VALUES ($1, $2)");
}

bool Submission::place_order(pqxx::work &transaction) const {
    std::this_thread::sleep_for(click_.work_time);
    exec_prepared(transaction, "insert_order", click_.form, click_.customer);
    return !click_.card_is_declined;
}

} // namespace demo::forms
