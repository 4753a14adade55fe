#include <idem/keys.hpp>

#include "key_statements.hpp"
#include "outcome.hpp"
#include "server_time.hpp"
#include "stored_text.hpp"

namespace idem {

namespace {

using detail::command;
using detail::parameter;
using detail::record;
using detail::statement;

constexpr detail::words<4> kStates{"in_progress", "completed", "released", "in_doubt"};

constexpr statement claim_statement{
    "idem_claim", "SELECT @idem@.idem_claim($1::pg_catalog.text, $2::pg_catalog.interval, $3::pg_catalog.text)"};
constexpr statement must_claim_statement{
    "idem_must_claim", "SELECT @idem@.idem_must_claim($1::pg_catalog.text, $2::pg_catalog.interval, $3::pg_catalog.text)"};
constexpr statement try_claim_statement{
    "idem_try_claim", "SELECT @idem@.idem_try_claim($1::pg_catalog.text, $2::pg_catalog.interval, $3::pg_catalog.text)"};
constexpr statement serialize_statement{"idem_serialize",
                                        "SELECT @idem@.idem_serialize($1::pg_catalog.text, $2::pg_catalog.text)", true};
constexpr statement hit_statement{"idem_hit",
                                  "SELECT @idem@.idem_hit($1::pg_catalog.text, $2::pg_catalog.interval, $3::pg_catalog.text)"};
constexpr statement release_statement{"idem_release",
                                      "SELECT @idem@.idem_release($1::pg_catalog.text, scope => $2::pg_catalog.text)"};
constexpr statement forget_statement{"idem_forget", "SELECT @idem@.idem_forget($1::pg_catalog.text, $2::pg_catalog.text)"};
constexpr statement owner_statement{
    "idem_is_owner_of", "SELECT @idem@.idem_is_owner($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text)", true};
constexpr statement hits_statement{
    "idem_hits",
    "SELECT hits, "
    "CASE WHEN pg_catalog.isfinite(expires_at) THEN pg_catalog.int8(1000000 OPERATOR(pg_catalog.*) EXTRACT(epoch FROM "
    "expires_at)) END "
    "FROM @idem@.idem_hits($1::pg_catalog.text, $2::pg_catalog.text)",
    true};
constexpr statement lookup_statement{
    "idem_lookup",
    "SELECT state, response::pg_catalog.text, status_code, response_omitted, attempt, steps::pg_catalog.text, "
    "CASE WHEN pg_catalog.isfinite(created_at) THEN pg_catalog.int8(1000000 OPERATOR(pg_catalog.*) EXTRACT(epoch FROM "
    "created_at)) END, "
    "CASE WHEN pg_catalog.isfinite(expires_at) THEN pg_catalog.int8(1000000 OPERATOR(pg_catalog.*) EXTRACT(epoch FROM "
    "expires_at)) END, "
    "CASE WHEN pg_catalog.isfinite(lease_until) THEN pg_catalog.int8(1000000 OPERATOR(pg_catalog.*) EXTRACT(epoch FROM "
    "lease_until)) END "
    "FROM @idem@.idem_lookup($1::pg_catalog.text, $2::pg_catalog.text)",
    true};

parameter one(const target &at, const command &command) { return detail::call(at, command).at(0).at(0); }

} // namespace

const char *name(key_outcome outcome) noexcept { return detail::word_of(detail::kKeyOutcomes, outcome); }
const char *name(key_state state) noexcept { return detail::word_of(kStates, state); }

bool claim(const target &at, const std::string &key, const std::optional<duration> &ttl, const std::string &scope) {
    return one(at, {&claim_statement, {key, detail::interval_text(ttl), scope}, {key, scope}}) == "t";
}

void must_claim(const target &at, const std::string &key, const std::optional<duration> &ttl, const std::string &scope) {
    detail::call(at, {&must_claim_statement, {key, detail::interval_text(ttl), scope}, {key, scope}});
}

key_outcome try_claim(const target &at, const std::string &key, const std::optional<duration> &ttl, const std::string &scope) {
    return detail::outcome_of<key_outcome>(
        detail::kKeyOutcomes, one(at, {&try_claim_statement, {key, detail::interval_text(ttl), scope}, {key, scope}}));
}

std::vector<std::string> claim_many(const target &at, const std::vector<std::string> &keys, const std::optional<duration> &ttl,
                                    const std::string &scope) {
    std::vector<std::string> new_keys;
    for (record &each : detail::call(at, detail::claim_many_command({keys.begin(), keys.end()}, ttl, scope)))
        new_keys.push_back(std::move(each.at(0).value()));
    return new_keys;
}

void serialize(const target &at, const std::string &key, const std::string &scope) {
    detail::call(at, {&serialize_statement, {key, scope}, {key, scope}});
}

std::int64_t hit(const target &at, const std::string &key, const std::optional<duration> &ttl, const std::string &scope) {
    return detail::to_integer(one(at, {&hit_statement, {key, detail::interval_text(ttl), scope}, {key, scope}}));
}

std::optional<hit_count> hits(const target &at, const std::string &key, const std::string &scope) {
    const detail::rows found = detail::call(at, {&hits_statement, {key, scope}, {key, scope}});
    if (found.empty())
        return std::nullopt;
    return hit_count{detail::to_integer(found[0].at(0)), detail::time_of(found[0].at(1))};
}

bool is_owner(const target &at, const std::string &key, const std::string &owner, const std::string &scope) {
    return one(at, {&owner_statement, {key, owner, scope}, {key, scope}}) == "t";
}

std::optional<key_info> lookup(const target &at, const std::string &key, const std::string &scope) {
    detail::rows found = detail::call(at, {&lookup_statement, {key, scope}, {key, scope}});
    if (found.empty())
        return std::nullopt;
    record &one = found[0];
    std::optional<int> status_code;
    if (one.at(2))
        status_code = static_cast<int>(detail::to_integer(one[2]));
    return key_info{detail::outcome_of<key_state>(kStates, one[0]),
                    detail::result_of(std::move(one[1])),
                    status_code,
                    one.at(3) == "t",
                    static_cast<int>(detail::to_integer(one.at(4))),
                    detail::results_of(one.at(5)),
                    detail::time_of(one.at(6)).value(),
                    detail::time_of(one.at(7)),
                    detail::time_of(one.at(8))};
}

void release(const target &at, const std::string &key, const std::string &scope) {
    detail::call(at, {&release_statement, {key, scope}, {key, scope}});
}

bool forget(const target &at, const std::string &key, const std::string &scope) {
    return one(at, {&forget_statement, {key, scope}, {key, scope}}) == "t";
}

} // namespace idem
