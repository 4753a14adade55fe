#include "client_state.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "bounded.hpp"
#include "heartbeat.hpp"

namespace idem {

client::client(client_options options) : state_(std::make_shared<detail::client_state>(std::move(options))) {}

client::client(const std::string &dsn)
    : client([&] {
          client_options options;
          options.dsn = dsn;
          return options;
      }()) {}

const client_options &client::options() const noexcept { return state_->options(); }

std::string client::schema() {
    if (std::string known = state_->schema(); !known.empty())
        return known;
    return state_->schema(*state_->take());
}

namespace detail {

namespace {

/// The 64-bit hash of Fowler, Noll and Vo, as hexadecimal digits.
std::string fnv_1a(std::string_view text) {
    std::uint64_t hash = 14695981039346656037u;
    for (const char c : text)
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    static constexpr char digits[] = "0123456789abcdef";
    std::string hex;
    for (int shift = 60; shift >= 0; shift -= 4)
        hex += digits[hash >> shift & 15];
    return hex;
}

/// A quoted SQL identifier; empty if the name is empty.
std::string quoted_name(const std::string &name) {
    if (name.empty())
        return {};
    std::string safe = "\"";
    for (const char c : name)
        safe.append(c == '"' ? 2 : 1, c);
    return safe + '"';
}

// The schema of the extension; without one, those of the portable edition. A function that merely has the name does not count,
// nor one in a schema of somebody else's, such as public or pg_temp, where its owner may have planted it.
constexpr statement schema_statement{
    "idem_schema",
    "WITH extension AS (SELECT e.extnamespace AS home FROM pg_catalog.pg_extension e "
    "WHERE e.extname OPERATOR(pg_catalog.=) 'idem'::pg_catalog.name) "
    "SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_namespace n JOIN extension ON n.oid OPERATOR(pg_catalog.=) "
    "home "
    "UNION ALL SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_proc p "
    "JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace "
    "WHERE p.proname OPERATOR(pg_catalog.=) 'idem_version'::pg_catalog.name "
    "AND p.proowner OPERATOR(pg_catalog.=) n.nspowner AND p.pronargs OPERATOR(pg_catalog.=) 0::pg_catalog.int2 "
    "AND p.proargnames OPERATOR(pg_catalog.=) '{edition,version,server}'::pg_catalog.text[] "
    "AND NOT pg_catalog.starts_with(n.nspname::pg_catalog.text, 'pg_') AND NOT EXISTS (SELECT FROM extension)",
    true};

std::string list_of(const rows &names) {
    std::string list;
    for (const record &each : names)
        list += (list.empty() ? "" : ", ") + each.at(0).value_or("");
    return list;
}

} // namespace

pooled_session::pooled_session(client_state &pool, std::unique_ptr<session> taken) : pool_(&pool), session_(std::move(taken)) {}
pooled_session::pooled_session(pooled_session &&) noexcept = default;

pooled_session &pooled_session::operator=(pooled_session &&other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(session_, other.session_);
    return *this;
}

pooled_session::~pooled_session() {
    if (session_)
        pool_->give_back(std::move(session_));
}

client_state::client_state(client_options options)
    : options_(std::move(options)), prepare_(options_.prepare), schema_(quoted_name(options_.schema)) {
    if (options_.max_connections == 0)
        throw bad_input("22023", "max_connections must be at least 1");
    if (options_.retry.attempts < 1)
        throw bad_input("22023", "attempts must be at least 1");
    idle_.reserve(options_.max_connections); // so that give_back cannot fail
}

client_state::~client_state() = default;

pooled_session client_state::take() {
    for (;;) {
        std::unique_ptr<session> idle = take_idle();
        if (!idle)
            break;
        if (!idle->closed_by_server())
            return {*this, std::move(idle)};
        give_back(std::move(idle));
    }
    try {
        return {*this, std::make_unique<session>(*this)};
    } catch (...) {
        give_back(nullptr);
        throw;
    }
}

std::unique_ptr<session> client_state::take_idle() {
    std::unique_lock lock(pool_lock_);
    const auto available = [&] { return !idle_.empty() || open_ < options_.max_connections; };
    if (!returned_.wait_for(lock, bounded(options_.connection_wait), available))
        throw pool_exhausted("53300", "no connection became free within " + std::to_string(options_.connection_wait.count()) +
                                          " ms; all " + std::to_string(options_.max_connections) + " are in use");
    if (idle_.empty()) {
        ++open_;
        return nullptr;
    }
    std::unique_ptr<session> last = std::move(idle_.back());
    idle_.pop_back();
    return last;
}

void client_state::give_back(std::unique_ptr<session> used) noexcept {
    const bool usable = used && !used->broken();
    if (!usable)
        used.reset(); // closes outside the lock
    {
        const std::lock_guard lock(pool_lock_);
        if (usable)
            idle_.push_back(std::move(used));
        else
            --open_;
    }
    returned_.notify_one();
}

void client_state::drop_idle() noexcept {
    {
        const std::lock_guard lock(pool_lock_);
        for (std::unique_ptr<session> &each : idle_)
            each->discard();
    }
    // One by one, and outside the lock: closing may take time. idle_ keeps the capacity that give_back relies on.
    for (;;) {
        std::unique_ptr<session> dropped;
        {
            const std::lock_guard lock(pool_lock_);
            const auto found = std::find_if(idle_.begin(), idle_.end(), [](const auto &each) { return each->broken(); });
            if (found == idle_.end())
                return;
            dropped = std::move(*found);
            idle_.erase(found);
            --open_;
        }
        dropped.reset();
        returned_.notify_one();
    }
}

bool client_state::begin_wait() noexcept {
    if (++waits_ < options_.max_connections)
        return true;
    end_wait();
    return false;
}

std::string client_state::schema() {
    const std::lock_guard lock(names_lock_);
    return schema_;
}

const std::string &client_state::schema(session &on) {
    {
        const std::lock_guard lock(names_lock_);
        if (!schema_.empty())
            return schema_;
    }
    // No recursion: the text of this statement does not contain @idem@.
    const std::vector<rows> answer = on.run({{&schema_statement, {}}});
    const rows &found = answer[0];
    if (found.empty())
        throw not_installed("3F000", "extension \"idem\" is not installed in this database\nHINT:  CREATE EXTENSION idem; or, "
                                     "where no C library can be loaded, install the portable edition.");
    if (found.size() > 1)
        throw bad_input("42725", "the portable edition of idem is in more than one schema of this database: " + list_of(found) +
                                     "\nHINT:  Set the schema in the client's options.");
    const std::lock_guard lock(names_lock_);
    if (schema_.empty())
        schema_ = *found[0][0];
    return schema_;
}

const resolved_statement *client_state::resolved(const statement &what) {
    const std::lock_guard lock(names_lock_);
    const auto found = texts_.find(&what);
    return found == texts_.end() ? nullptr : found->second.get();
}

const resolved_statement &client_state::resolve(const statement &what, session &on) {
    if (const resolved_statement *known = resolved(what))
        return *known;
    std::string text = what.text;
    static constexpr std::string_view placeholder = "@idem@";
    for (std::size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder, at))
        text.replace(at, placeholder.size(), schema(on));
    // Behind a pooler, programs with other versions of this library share the sessions: each name must stand for one text.
    std::string name = what.name + ("_" + fnv_1a(text));
    const std::lock_guard lock(names_lock_);
    return *texts_
                .try_emplace(&what,
                             std::make_unique<const resolved_statement>(resolved_statement{std::move(name), std::move(text)}))
                .first->second;
}

heartbeat &client_state::shared_heartbeat() {
    const std::lock_guard lock(heartbeat_lock_);
    if (!heartbeat_)
        heartbeat_ = std::make_unique<heartbeat>(*this);
    return *heartbeat_;
}

} // namespace detail
} // namespace idem
