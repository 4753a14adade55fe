// claim, lookup, forget
#include <idem/keys.hpp>
#include <idem/once.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "queries.hpp"

namespace idem::cli {

namespace {

constexpr detail::statement lookup_statement{
    "idem_cli_lookup",
    "SELECT pg_catalog.row_to_json(r)::pg_catalog.text FROM (SELECT state, status_code, attempt, created_at, expires_at, "
    "lease_until, "
    "steps, response_omitted, response FROM @idem@.idem_lookup($1, $2)) r",
    true};

} // namespace

int claim_key(context &c) {
    c.db.schema(); // fails at once if there is no connection
    request about(c.given.key);
    about.in(c.given.scope).wait(c.given.wait);
    if (c.given.ttl)
        about.ttl(*c.given.ttl);
    // No work: `once` is used because it looks the key up after a lost reply.
    const answer claimed = once(c.db, about, [](transaction &) {});
    show_word(c, name(claimed.replayed ? key_outcome::completed : key_outcome::acquired));
    return claimed.replayed ? kNo : kDone;
}

int lookup_key(context &c) {
    const auto found = query(c, lookup_statement, {c.given.key, c.given.scope}, {c.given.key, c.given.scope});
    if (found.empty() && !c.given.quiet)
        complain("there is no live key \"" + c.given.key + "\"" +
                 (c.given.scope.empty() ? "" : " in scope \"" + c.given.scope + "\""));
    if (!found.empty() || c.given.json)
        show(c, found, {});
    return found.empty() ? kNo : kDone;
}

int forget_key(context &c) {
    const bool was_there = ask(c, [&] { return forget(c.db, c.given.key, c.given.scope); });
    show_word(c, was_there ? "forgotten" : "not_found");
    return was_there ? kDone : kNo;
}

} // namespace idem::cli
