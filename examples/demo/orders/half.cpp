#include "half.hpp"

#include <thread>

namespace demo::orders {

void Job::prepare(pqxx::connection &connection) {
    connection.prepare("insert_effect", "INSERT INTO effects (order_id, entered) VALUES ($1, $2)");
}

void Job::do_work(pqxx::work &transaction) const {
    std::this_thread::sleep_for(event_.work_time);
    exec_prepared(transaction, "insert_effect", event_.order, event_.to);
}

} // namespace demo::orders
