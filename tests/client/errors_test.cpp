// The hierarchy of errors, and what a retry makes of each exception.
#include <gtest/gtest.h>

#include <map>
#include <typeinfo>

#include <idem/error.hpp>
#include <idem/once.hpp>
#include <idem/pqxx_compat.hpp>
#include <idem/retry.hpp>
#include <idem/rows.hpp>
#include <idem/statement.hpp>
#include <idem/transact.hpp>

#include "server.hpp"

namespace {

const std::type_info &class_of(const std::string &sqlstate) {
    try {
        idem::throw_error(sqlstate, "message", {"the key", "the scope"});
    } catch (const idem::error &e) {
        EXPECT_EQ(e.sqlstate(), sqlstate);
        EXPECT_STREQ(e.what(), "message");
        EXPECT_EQ(e.key(), "the key");
        EXPECT_EQ(e.scope(), "the scope");
        return typeid(e);
    }
}

TEST(Errors, TheSqlstateMakesTheClass) {
    const std::vector<std::pair<const char *, const std::type_info *>> table = {
        {"ID001", &typeid(idem::stale_fence)},
        {"ID002", &typeid(idem::mismatch)},
        {"ID003", &typeid(idem::not_allowed)},
        {"ID004", &typeid(idem::stale_version)},
        {"ID005", &typeid(idem::in_flight)},
        {"40001", &typeid(idem::transient)},
        {"40P01", &typeid(idem::transient)},
        {"55P03", &typeid(idem::busy)},
        {"57014", &typeid(idem::cancelled)},
        {"25006", &typeid(idem::read_only)},
        {"25P02", &typeid(idem::rolled_back)},
        {"42501", &typeid(idem::denied)},
        {"P0002", &typeid(idem::not_found)},
        {"3F000", &typeid(idem::not_installed)},
        {"42883", &typeid(idem::not_installed)},
        {"57P01", &typeid(idem::connection_lost)},
        {"57P02", &typeid(idem::connection_lost)},
        {"57P03", &typeid(idem::connection_lost)},
        {"57P05", &typeid(idem::connection_lost)},
        {"25P03", &typeid(idem::connection_lost)},
        {"08000", &typeid(idem::connection_lost)},
        {"08001", &typeid(idem::connection_lost)},
        {"08003", &typeid(idem::connection_lost)},
        {"08004", &typeid(idem::connection_lost)},
        {"08006", &typeid(idem::connection_lost)},
        {"08P01", &typeid(idem::connection_lost)},
        {"08007", &typeid(idem::outcome_unknown)},
        {"22004", &typeid(idem::bad_input)},
        {"22023", &typeid(idem::bad_input)},
        {"23505", &typeid(idem::bad_input)},
        {"42703", &typeid(idem::bad_input)},
        {"42P01", &typeid(idem::bad_input)},
        {"42P10", &typeid(idem::bad_input)},
        {"XX000", &typeid(idem::error)},
        {"53200", &typeid(idem::error)},
        {"55000", &typeid(idem::error)},
        {"ID999", &typeid(idem::error)},
        {"", &typeid(idem::error)},
        {"4", &typeid(idem::error)},
        {"40002", &typeid(idem::error)},
    };
    for (const auto &[sqlstate, expected] : table)
        EXPECT_EQ(class_of(sqlstate).name(), expected->name()) << sqlstate;
}

template <typename Error> idem::verdict judge(const Error &e, const std::string &sqlstate) {
    std::string state, message;
    const idem::verdict what = idem::judge(std::make_exception_ptr(e), &state, &message);
    EXPECT_EQ(state, sqlstate);
    EXPECT_FALSE(message.empty());
    EXPECT_EQ(what, idem::judge(std::make_exception_ptr(e)));
    return what;
}

// Every class of SQLSTATEs of PostgreSQL and idem's own, raised by a caller's statement and by one of idem's.
TEST(Errors, AreJudgedByTheirSqlstate) {
    using idem::verdict;
    std::map<std::string, verdict> table;
    for (const char *of_class : {"01", "02", "03", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "20", "21", "22", "23",
                                 "24", "25", "26", "27", "28", "2B", "2D", "2F", "34", "38", "39", "3B", "3D", "3F",
                                 "40", "42", "44", "53", "54", "55", "57", "58", "72", "F0", "HV", "P0", "XX", "ID"})
        table[std::string(of_class) + "000"] = verdict::final;
    for (const char *never : {"ID001", "ID002", "ID003", "ID004", "ID005", "25P02", "25006", "55P03", "57014", "57P04", "23505",
                              "40002", "40003", "53300", "42883"})
        table[never] = verdict::final;
    table["40001"] = table["40P01"] = verdict::transient;
    for (const char *lost : {"08000", "08001", "08003", "08004", "08006", "08P01", "57P01", "57P02", "57P03", "57P05", "25P03"})
        table[lost] = verdict::connection_lost;

    for (const auto &[sqlstate, expected] : table) {
        try {
            idem::throw_error(sqlstate, "message");
        } catch (const idem::error &) {
            std::string state;
            EXPECT_EQ(idem::judge(std::current_exception(), &state), expected) << sqlstate;
            EXPECT_EQ(state, sqlstate);
        }
        EXPECT_EQ(judge(pqxx::sql_error("message", "query", sqlstate.c_str()), sqlstate), expected) << sqlstate;
    }
    EXPECT_EQ(judge(idem::outcome_unknown("08007", "message"), "08007"), verdict::commit_unknown);
    EXPECT_EQ(judge(idem::pool_exhausted("53300", "message"), "53300"), verdict::final);
    // The SQLSTATE alone does not show a lost connection: this error was raised on a connection that is intact.
    EXPECT_EQ(judge(idem::error("08006", "message"), "08006"), verdict::final);
    EXPECT_EQ(judge(pqxx::broken_connection("message"), "08006"), verdict::connection_lost);
    EXPECT_EQ(judge(pqxx::usage_error("message"), ""), verdict::final);
    EXPECT_EQ(judge(std::runtime_error("message"), ""), verdict::final);
    EXPECT_EQ(idem::judge(std::make_exception_ptr(42)), verdict::final);
}

// The same, raised by a real server and thrown by libpqxx. Its classes lose some of the SQLSTATEs.
TEST(Errors, WhatTheServerRaisesKeepsItsSqlstate) {
    pqxx::connection db(test::dsn());
    for (const char *sqlstate : {"40001", "40P01", "40003", "22012", "23505", "42501", "42P01", "53100", "57014", "P0001",
                                 "ID001", "XX000", "0A000", "2BP01"}) {
        pqxx::nontransaction tx(db);
        try {
            tx.exec(std::string("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '") + sqlstate + "'; END $$");
            ADD_FAILURE() << sqlstate;
        } catch (const std::exception &e) {
            EXPECT_EQ(idem::detail::sqlstate_of(e), sqlstate);
        }
    }
}

// std::exception promises that copying an exception does not throw.
static_assert(std::is_nothrow_copy_constructible_v<idem::error> && std::is_nothrow_copy_assignable_v<idem::error>);
static_assert(std::is_nothrow_copy_constructible_v<idem::in_flight>);

TEST(Errors, AMissingExtensionIsNamedSo) {
    const std::string name = "client_bare_" + idem::detail::make_nonce().substr(0, 8);
    test::ask("CREATE DATABASE " + name + " TEMPLATE template0");
    {
        idem::client_options options;
        options.dsn = "dbname=" + name;
        idem::client db = test::make_client(options);
        EXPECT_THROW(db.schema(), idem::not_installed);
        EXPECT_THROW(idem::once(db, "key", [](idem::transaction &) {}), idem::not_installed);
        options.schema = "elsewhere";
        idem::client wrong = test::make_client(options);
        EXPECT_THROW(idem::once(wrong, "key", [](idem::transaction &) {}), idem::not_installed);
    }
    test::ask("DROP DATABASE " + name + " WITH (FORCE)");
}

TEST(Errors, ARoleWithoutPrivilegesIsDenied) {
    const std::string role = "client_" + idem::detail::make_nonce().substr(0, 8);
    test::ask("CREATE ROLE " + role);
    {
        idem::client_options options;
        options.dsn = "options='-c role=" + role + "'";
        idem::client db = test::make_client(options);
        EXPECT_THROW(idem::once(db, "key", [](idem::transaction &) {}), idem::denied);
        EXPECT_THROW(idem::once_statement(db, "key", "SELECT 1"), idem::denied);
        options.dsn = "options='-c default_transaction_read_only=on'";
        idem::client reader = test::make_client(options);
        EXPECT_THROW(idem::once(reader, test::unique_key(), [](idem::transaction &) {}), idem::read_only);
        options.dsn = "options='-c statement_timeout=20'";
        idem::client hasty = test::make_client(options);
        EXPECT_THROW(idem::once_statement(hasty, test::unique_key(), "SELECT pg_sleep(60)::text AS slept"), idem::cancelled);
    }
    test::ask("DROP ROLE " + role);
}

// A call on a client is sent without BEGIN, so deferred checks fail after its answer.
TEST(Errors, DeferredCheckOfASingleCallKeepsItsErrorAndTheConnection) {
    idem::client_options options;
    options.max_connections = 1;
    idem::client db = test::make_client(options);
    const std::string table = "deferred_" + idem::detail::make_nonce().substr(0, 8);
    test::ask("CREATE TABLE " + table + " (id int PRIMARY KEY, other int REFERENCES " + table +
              " DEFERRABLE INITIALLY DEFERRED)");
    const auto pid = [&] {
        return idem::transact(
            db, [](idem::transaction &tx) { return std::string(tx.exec("SELECT pg_backend_pid()")[0][0].c_str()); });
    };
    const std::string before = pid();
    try {
        unique_insert(db, table, {{"id", 1}, {"other", 2}});
        ADD_FAILURE() << "the row has no other";
    } catch (const idem::bad_input &e) {
        EXPECT_EQ(e.sqlstate(), "23503");
    }
    EXPECT_TRUE(unique_insert(db, table, {{"id", 1}, {"other", 1}}));
    EXPECT_EQ(pid(), before);
    test::ask("DROP TABLE " + table);
}

} // namespace
