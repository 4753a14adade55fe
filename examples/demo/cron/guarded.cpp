// With idem: one host gets the lock, the others wait for it and then find the job done. A holder that dies is taken over when
// its lease has run out. One that was only paused, and does not know that it was taken over, is stopped by its fence.
#include "half.hpp"

namespace demo::cron {
namespace {

void prepare(pqxx::connection &connection) {
    connection.prepare("lock", "SELECT idem_lock('credit-interest', lease => '200 ms', wait => '10 s', scope => 'cron')");
    connection.prepare("renew", "SELECT idem_lock_renew('credit-interest', fence => $1, lease => '200 ms', scope => 'cron')");
    connection.prepare("assert_fence", "SELECT FROM idem_assert_fence('credit-interest', fence => $1, scope => 'cron')");
    connection.prepare("unlock", "SELECT idem_unlock('credit-interest', fence => $1, scope => 'cron')");
}

// Outside a transaction block each of these commits by itself, so that the others see it at once.
std::optional<std::int64_t> lock(pqxx::connection &connection) {
    pqxx::nontransaction transaction{connection};
    const auto row = one_row(exec_prepared(transaction, "lock"));
    return row[0].is_null() ? std::nullopt : std::optional{row[0].as<std::int64_t>()};
}

bool renew(pqxx::connection &connection, std::int64_t fence) {
    pqxx::nontransaction transaction{connection};
    return one_row(exec_prepared(transaction, "renew", fence))[0].as<bool>();
}

// False: no longer ours, and no longer our business.
void unlock(pqxx::connection &connection, std::int64_t fence) {
    pqxx::nontransaction transaction{connection};
    exec_prepared(transaction, "unlock", fence);
}

// From here on nobody can take the lock over until the transaction has ended.
bool assert_fence(pqxx::work &transaction, std::int64_t fence, Shift &shift) {
    try {
        exec_prepared(transaction, "assert_fence", fence);
    } catch (const pqxx::sql_error &error) {
        if (error.sqlstate() != "ID001")
            throw;
        shift.refused(error);
        return false;
    }
    return true;
}

Answer do_job(Shift &shift, std::int64_t fence) {
    if (!shift.compute(fence, [&] { return renew(shift.connection(), fence); }))
        return "lost";

    pqxx::work transaction{shift.connection()};
    if (!assert_fence(transaction, fence, shift))
        return "refused";
    shift.credit(transaction);
    transaction.commit();
    return "ran";
}

Answer run(Shift &shift) {
    const auto fence = lock(shift.connection());
    if (!fence)
        return "busy";
    auto answer = shift.is_done() ? "done" : do_job(shift, *fence);
    unlock(shift.connection(), *fence);
    return answer;
}

} // namespace

const Half kGuarded{.name = "idem_lock", .schema = "cron_idem", .prepare = prepare, .run = run};

} // namespace demo::cron
