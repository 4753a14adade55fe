// The only file that distinguishes libpqxx's versions: 6.4 (Debian 12), 7.10, 8.0. It gives their differences one spelling.
#pragma once

#include <idem/standard.hpp>

#include <optional>
#include <pqxx/pqxx>
#include <pqxx/version>
#include <string>
#include <utility>
#include <vector>

#if PQXX_VERSION_MAJOR < 6 || (PQXX_VERSION_MAJOR == 6 && PQXX_VERSION_MINOR < 4)
#error "libpqxx 6.4 or later is needed"
#elif PQXX_VERSION_MAJOR == 7 && PQXX_VERSION_MINOR < 10
#error "libpqxx 7.10 or later is needed"
#endif

namespace idem {

#if PQXX_VERSION_MAJOR < 7
/// What tx.conn() returns.
using connection = pqxx::connection_base;
#else
using connection = pqxx::connection;
#endif

namespace detail {

using pg_connection = pqxx::internal::pq::PGconn;

#if PQXX_VERSION_MAJOR < 7

/// An open libpq connection as a libpqxx connection, which does not own it.
class adopted_connection final : public pqxx::connection_base {
  public:
    explicit adopted_connection(pg_connection *raw) : pqxx::connection_base(policy_), policy_(raw) {
        init();
#include "pqxx/internal/ignore-deprecated-pre.hxx"
        inhibit_reactivation(true);
#include "pqxx/internal/ignore-deprecated-post.hxx"
    }
    ~adopted_connection() noexcept { close(); }

    pqxx::connection_base &get() noexcept { return *this; }
    /// Whether the caller closed it, which frees libpq's connection. Never here: libpqxx 6 leaves that to the owner.
    bool freed() const noexcept { return false; }

  private:
    // libpqxx 6 would silently open a new connection in a transaction when the old one broke: this policy offers it none.
    class policy final : public pqxx::connectionpolicy {
      public:
        explicit policy(pg_connection *raw) : pqxx::connectionpolicy(std::string{}), raw_(raw) {}
        handle do_startconnect(handle current) override {
            if (current != nullptr)
                return current;
            if (raw_ == nullptr)
                throw pqxx::broken_connection{"the connection is lost"};
            return std::exchange(raw_, nullptr);
        }
        handle do_completeconnect(handle current) override { return current; }
        handle do_dropconnect(handle) noexcept override { return nullptr; }
        handle do_disconnect(handle) noexcept override { return nullptr; }

      private:
        pg_connection *raw_;
    };

    policy policy_;
};

#else

class adopted_connection final {
  public:
    explicit adopted_connection(pg_connection *raw) : connection_(pqxx::connection::seize_raw_connection(raw)) {}
    ~adopted_connection() { static_cast<void>(std::move(connection_).release_raw_connection()); }
    adopted_connection(const adopted_connection &) = delete;
    adopted_connection &operator=(const adopted_connection &) = delete;

    pqxx::connection &get() noexcept { return connection_; }
    /// Whether the caller closed it, which frees libpq's connection.
    bool freed() const noexcept { return connection_.username() == nullptr; }

  private:
    pqxx::connection connection_;
};

#endif

} // namespace detail

/// A transaction whose derived class, and not libpqxx, sends BEGIN, COMMIT and ROLLBACK.
class managed_transaction : public pqxx::dbtransaction {
  protected:
#if PQXX_VERSION_MAJOR < 7
    explicit managed_transaction(connection &on) : pqxx::internal::namedclass("transaction"), pqxx::dbtransaction(on) {
        Begin();
    }
    /// The destructor of the derived class must call it first: ends an open libpqxx transaction.
    void shut() noexcept { End(); }

  private:
    void do_begin() final {}
    // libpqxx 6 would roll back at the first error; later versions do not.
    pqxx::result do_exec(const char query[]) final { return direct_exec(query); }
    void do_commit() final { commit_now(); }
    void do_abort() final { abort_now(); }
#else
    explicit managed_transaction(connection &on) : pqxx::dbtransaction(on, "transaction") { register_transaction(); }
    void shut() noexcept { close(); }

  private:
#if PQXX_VERSION_MAJOR < 8
    void do_commit() final { commit_now(); }
    void do_abort() final { abort_now(); }
#else
    void do_commit(pqxx::sl) final { commit_now(); }
    void do_abort(pqxx::sl) final { abort_now(); }
#endif
#endif

    virtual void commit_now() = 0;
    virtual void abort_now() = 0;
};

namespace detail {

// The most derived class initializes libpqxx 6's virtual base.
#if PQXX_VERSION_MAJOR < 7
#define IDEM_PQXX_TRANSACTION(on) pqxx::internal::namedclass("transaction"), ::idem::managed_transaction(on)
#else
#define IDEM_PQXX_TRANSACTION(on) ::idem::managed_transaction(on)
#endif

inline void close_connection(connection &on) {
#if PQXX_VERSION_MAJOR < 7
    on.disconnect();
#else
    on.close();
#endif
}

/// libpqxx 6 silently reopens a lost connection, and the next statement would run outside the lost transaction. Later versions
/// do not.
inline void stay_lost([[maybe_unused]] connection &on) {
#if PQXX_VERSION_MAJOR < 7
#include "pqxx/internal/ignore-deprecated-pre.hxx"
    on.inhibit_reactivation(true);
#include "pqxx/internal/ignore-deprecated-post.hxx"
#endif
}

/// One statement with parameters in text format.
inline pqxx::result exec_with(pqxx::transaction_base &tx, const std::string &text,
                              const std::vector<std::optional<std::string>> &values) {
#if PQXX_VERSION_MAJOR < 7
    std::vector<const char *> pointers;
    for (const std::optional<std::string> &value : values)
        pointers.push_back(value ? value->c_str() : nullptr);
    return tx.exec_params(text, pqxx::prepare::make_dynamic_params(pointers));
#else
    pqxx::params all;
    for (const std::optional<std::string> &value : values)
        if (value)
            all.append(*value);
        else
            all.append();
    return tx.exec(text, all);
#endif
}

/// Runs the prepared statement of this name.
template <typename... Values>
pqxx::result exec_prepared(pqxx::transaction_base &tx, const char *name, const Values &...values) {
#if PQXX_VERSION_MAJOR < 7
    return tx.exec_prepared(name, values...);
#else
    return tx.exec(pqxx::prepped{name}, pqxx::params{values...});
#endif
}

/// The only row. Throws pqxx::unexpected_rows if there is not exactly one.
inline pqxx::row one_row(const pqxx::result &found) {
#if PQXX_VERSION_MAJOR < 7
    if (found.size() != 1)
        throw pqxx::unexpected_rows{"expected 1 row, got " + std::to_string(found.size())};
    return found.front();
#else
    return found.one_row();
#endif
}

/// A COPY stream into the table of this name.
inline pqxx::stream_to copy_into(pqxx::transaction_base &tx, const char *table) {
#if PQXX_VERSION_MAJOR < 7
    return pqxx::stream_to{tx, table};
#else
    return pqxx::stream_to::table(tx, {table});
#endif
}

/// The SQLSTATE of a libpqxx exception. 08006 if it has none, as for errors that libpq itself reports about a broken
/// connection; empty for exceptions that are not SQL errors.
inline std::string sqlstate_of(const std::exception &problem) {
    const auto *sql = dynamic_cast<const pqxx::sql_error *>(&problem);
    if (sql && !sql->sqlstate().empty())
        return std::string(sql->sqlstate());
    // In libpqxx 6 these are not sql_error.
    if (dynamic_cast<const pqxx::serialization_failure *>(&problem))
        return "40001";
    if (dynamic_cast<const pqxx::deadlock_detected *>(&problem))
        return "40P01";
    if (dynamic_cast<const pqxx::statement_completion_unknown *>(&problem))
        return "40003";
    if (dynamic_cast<const pqxx::transaction_rollback *>(&problem))
        return "40000";
    if (dynamic_cast<const pqxx::insufficient_privilege *>(&problem))
        return "42501";
    if (sql || dynamic_cast<const pqxx::broken_connection *>(&problem))
        return "08006";
    return {};
}

} // namespace detail

#if PQXX_VERSION_MAJOR < 7
/// Use this class: libpqxx 6's own sets its savepoint only at the first exec(), and forgets it for statements with parameters.
class subtransaction final : public pqxx::subtransaction {
  public:
    explicit subtransaction(pqxx::dbtransaction &outer, const std::string &name = {})
        : pqxx::internal::namedclass("subtransaction", outer.conn().adorn_name(name)), pqxx::subtransaction(outer, name) {
        Begin();
    }
};
#else
using subtransaction = pqxx::subtransaction;
#endif

} // namespace idem
