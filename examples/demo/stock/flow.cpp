#include "flow.hpp"

#include <thread>

namespace demo::stock {

void Attempt::prepare(pqxx::connection &connection) {
    connection.prepare("insert_sale", "INSERT INTO sales (attempt) VALUES ($1)");
}

void Attempt::do_own_work() const { std::this_thread::sleep_for(work_time_); }

void Attempt::insert_sale(pqxx::work &transaction) const { exec_prepared(transaction, "insert_sale", number_); }

} // namespace demo::stock
