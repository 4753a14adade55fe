// A search_path with hostile functions and operators: no statement of the library may call them.
#include <gtest/gtest.h>

#include <idem/consume.hpp>
#include <idem/ids.hpp>
#include <idem/keys.hpp>
#include <idem/leased.hpp>
#include <idem/locks.hpp>
#include <idem/machines.hpp>
#include <idem/once.hpp>
#include <idem/outbox.hpp>
#include <idem/rows.hpp>
#include <idem/tokens.hpp>
#include <idem/version.hpp>

#include "scratch.hpp"

namespace {

constexpr char kTraps[] = R"(
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS evil CASCADE;
CREATE SCHEMA evil;
CREATE FUNCTION evil.trap(text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped by %', $1; END$$;
DO $do$
DECLARE
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY['ceil(numeric)', 'floor(numeric)', 'clock_timestamp()', 'quote_ident(text)', 'isfinite(timestamptz)',
        'int8(numeric)', 'generate_series(bigint, bigint)', 'idem_next_id()', 'idem_uuid_v7()', 'idem_version()', 'idem_claim(text, interval, text)',
        'idem_key(text, text)', 'optimistic_update(regclass, jsonb, bigint, jsonb)'] LOOP
        EXECUTE format('CREATE FUNCTION evil.%s RETURNS int LANGUAGE sql AS $$SELECT evil.trap(%L)::int$$', each, each);
    END LOOP;
END
$do$;
CREATE FUNCTION evil.eq(oid, oid) RETURNS boolean LANGUAGE sql AS $$SELECT evil.trap('=')::boolean$$;
CREATE FUNCTION evil.eq(name, name) RETURNS boolean LANGUAGE sql AS $$SELECT evil.trap('=')::boolean$$;
CREATE FUNCTION evil.eq(pg_catalog.text, pg_catalog.text) RETURNS boolean LANGUAGE sql AS $$SELECT evil.trap('=')::boolean$$;
CREATE FUNCTION evil.times(int, numeric) RETURNS numeric LANGUAGE sql AS $$SELECT evil.trap('*')::numeric$$;
CREATE FUNCTION evil.minus(timestamptz, timestamptz) RETURNS interval LANGUAGE sql AS $$SELECT evil.trap('-')::interval$$;
CREATE OPERATOR evil.= (FUNCTION = evil.eq, LEFTARG = oid, RIGHTARG = oid);
CREATE OPERATOR evil.= (FUNCTION = evil.eq, LEFTARG = name, RIGHTARG = name);
CREATE OPERATOR evil.= (FUNCTION = evil.eq, LEFTARG = pg_catalog.text, RIGHTARG = pg_catalog.text);
CREATE OPERATOR evil.* (FUNCTION = evil.times, LEFTARG = int, RIGHTARG = numeric);
CREATE OPERATOR evil.- (FUNCTION = evil.minus, LEFTARG = timestamptz, RIGHTARG = timestamptz);
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (false);
CREATE DOMAIN evil.jsonb AS pg_catalog.jsonb CHECK (false);
CREATE DOMAIN evil.int8 AS pg_catalog.int8 CHECK (false);
CREATE DOMAIN evil.interval AS pg_catalog.interval CHECK (false);
CREATE DOMAIN evil.name AS pg_catalog.name CHECK (false);
CREATE DOMAIN evil.numeric AS pg_catalog.numeric CHECK (false);
CREATE DOMAIN evil.regclass AS pg_catalog.regclass CHECK (false);
CREATE TABLE evil.pg_extension (extname name, extnamespace oid);
CREATE TABLE evil.pg_namespace (oid oid, nspname name);
)";

TEST(SearchPath, NothingOfItIsMet) {
    test::ask(kTraps);
    idem::client_options options;
    options.dsn = "options='-c search_path=evil,pg_catalog'";
    idem::client db = test::make_client(options);
    const test::scratch rows;
    const std::string key = test::unique_key();
    const idem::row one{{"id", 1}};

    const auto once = [&] {
        return idem::once(db, idem::request{key}.of_json("{}").ttl(std::chrono::hours(1)),
                          [](idem::transaction &) { return "{}"; });
    };
    EXPECT_FALSE(once().replayed);
    EXPECT_TRUE(once().replayed);
    EXPECT_FALSE(idem::once_statement(db, idem::request{key + "'"}, "SELECT 1").replayed);
    EXPECT_TRUE(lookup(db, key));
    EXPECT_TRUE(claim(db, key + "2", std::chrono::hours(1)));
    EXPECT_EQ(try_claim(db, key + "2"), idem::key_outcome::completed);
    EXPECT_EQ(claim_many(db, {key + "3"}).size(), 1u);
    EXPECT_EQ(hit(db, key), 1);
    EXPECT_EQ(hits(db, key).value().hits, 1);
    EXPECT_TRUE(forget(db, key));
    idem::transact(db, [&](idem::transaction &tx) { serialize(tx, key); });

    // Without a given lease the flow renews at once, to learn the scope's.
    EXPECT_FALSE(leased(db, key + "4", [](idem::lease &) { return "{}"; }).replayed);
    EXPECT_TRUE(try_lock(db, key));

    EXPECT_TRUE(optimistic(db, rows.table(), one, [](const std::string &) { return idem::row{{"kind", "x"}}; }));
    EXPECT_TRUE(conditional_update(db, rows.table(), one, {{"kind", "x"}}, {{"kind", "y"}}));
    EXPECT_TRUE(conditional_adjust(db, rows.table(), one, "quantity", "1", {"0", "10"}));
    idem::transact(db, [&](idem::transaction &tx) {
        EXPECT_TRUE(pessimistic_lock(tx, rows.table(), one, idem::duration(10)));
        EXPECT_EQ(pessimistic_lock_many(tx, rows.table(), {one}, idem::duration(10)).size(), 1u);
    });
    EXPECT_TRUE(unique_insert(db, rows.table(), {{"id", 3}, {"sku", "A-3"}}, {"id"}));
    EXPECT_TRUE(guarded_insert(db, rows.table(), {{"id", 4}, {"sku", "A-4"}, {"kind", "z"}}, {"kind"}));
    EXPECT_TRUE(transition(db, rows.table(), one, "new", "paid"));
    EXPECT_TRUE(can_transition(db, rows.machine(), "new", "paid"));
    check_transition(db, rows.machine(), "new", "paid");
    EXPECT_FALSE(machine_dot(db, rows.machine()).empty());
    EXPECT_FALSE(machine_mermaid(db, rows.machine()).empty());

    EXPECT_EQ(redeem_token(db, issue_token(db)), idem::token_outcome::accepted);
    EXPECT_EQ(next_ids(db, 2).size(), 2u);
    EXPECT_GT(next_id(db), 0);
    EXPECT_FALSE(uuid_v7(db).empty());
    EXPECT_EQ(version(db).edition, test::edition());
    EXPECT_TRUE(consume(db, "tests", key, [](idem::transaction &) {}));
    EXPECT_TRUE(publish(db, {key, "1", "key", "{}", idem::duration(0), "dedup"}));
    EXPECT_EQ(publish_many(db, key, {{"1", "key", "{}", idem::duration(0), "dedup"}, {"2"}}).size(), 2u);
    const idem::batch taken = take(db, key);
    EXPECT_EQ(taken.messages.size(), 2u);
    EXPECT_EQ(renew(db, taken.ids(), taken.fence, std::chrono::minutes(1)), 2);
    EXPECT_FALSE(backlog(db).empty());
    EXPECT_EQ(nack(db, {taken.messages[0].id}, taken.fence), 1);
    EXPECT_EQ(ack(db, {taken.messages[1].id}, taken.fence), 1);
    EXPECT_EQ(consume_many(db, "tests", {key, key + "'"}, [](idem::transaction &, const std::vector<std::string> &) {}).size(),
              1u);
}

} // namespace
