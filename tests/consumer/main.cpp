// Crosses the library's boundary in each way there is: values, callables, and exceptions of both kinds.
#include <idem/idem.hpp>

#include <iostream>
#include <random>
#include <stdexcept>
#include <string>

namespace {

void expect(bool truth, const char *what) {
    if (!truth)
        throw std::runtime_error(what);
}

} // namespace

int main(int, char **arguments) try {
    idem::client db;
    const std::string key = "consumer " + std::to_string(std::random_device{}());
    int runs = 0;
    const auto pay = [&] {
        return idem::once(db, idem::request{key}.in("consumer").of_json(R"({"amount": 25})"), [&](idem::transaction &tx) {
            ++runs;
            const pqxx::result sum = tx.exec("SELECT 20 + 5");
            idem::subtransaction nested{tx};
            nested.exec("SELECT 1");
            nested.commit();
            return idem::response{201, "{\"paid\": " + std::string(sum[0][0].c_str()) + "}"};
        });
    };
    const idem::answer first = pay(), second = pay();
    expect(runs == 1, "the work runs once");
    expect(!first.replayed && second.replayed, "the second answer is a replay");
    expect(first.response == R"({"paid": 25})" && first.response == second.response, "both answers are the same");
    expect(first.status_code == 201 && second.status_code == 201, "both status codes are the same");

    try {
        idem::once(db, idem::request{key}.in("consumer").of_json(R"({"amount": 26})"), [](idem::transaction &) {});
        expect(false, "another request is a mismatch");
    } catch (const idem::error &e) {
        expect(dynamic_cast<const idem::mismatch *>(&e), "… and said to be one");
        expect(e.key() == key && e.scope() == "consumer", "… of this key");
    }
    try {
        idem::once(db, key + " failing", [](idem::transaction &tx) { tx.exec("SELECT 1/0"); });
        expect(false, "an error of the work arrives");
    } catch (const pqxx::sql_error &e) {
        expect(e.sqlstate() == "22012", "… as libpqxx's");
    }
    for (const char *mishap : {"PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())",
                               "RAISE EXCEPTION USING ERRCODE = '40001'", "RAISE EXCEPTION USING ERRCODE = '40P01'"}) {
        int attempts = 0;
        idem::once(db, key + mishap, [&](idem::transaction &tx) {
            if (++attempts == 1)
                tx.exec(std::string("DO $$ BEGIN ") + mishap + "; END $$");
        });
        expect(attempts == 2, "what may pass is run again");
    }
    std::cout << "C++ " << __cplusplus << ", libpqxx " << PQXX_VERSION << ": once\n";
} catch (const std::exception &e) {
    std::cerr << arguments[0] << ": " << e.what() << "\n";
    return 1;
}
