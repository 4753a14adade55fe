#include <idem/outbox.hpp>

#include <algorithm>

#include "server_time.hpp"

namespace idem {

namespace {

using detail::parameter;
using detail::record;
using detail::statement;

constexpr const char *kPublish = "SELECT @idem@.idem_publish($1::pg_catalog.text, $2::pg_catalog.jsonb, $3::pg_catalog.text, "
                                 "$4::pg_catalog.jsonb, $5::pg_catalog.interval, $6::pg_catalog.text)";
constexpr statement publish_statement{"idem_publish", kPublish};
// With a dedup_id, the repetition finds the first message.
constexpr statement publish_once_statement{"idem_publish_once", kPublish, true};
// The server builds the array of objects. A payload that is not one JSON value is an error, and never changes the array.
constexpr const char *kPublishMany =
    "SELECT id FROM pg_catalog.unnest(@idem@.idem_publish_many($1::pg_catalog.text, (SELECT "
    "COALESCE(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('payload', payload::pg_catalog.jsonb, 'key', key, 'headers', "
    "headers::pg_catalog.jsonb, 'delay', delay, 'dedup_id', dedup_id) ORDER BY n), '[]') FROM ROWS FROM "
    "(pg_catalog.unnest($2::pg_catalog.text[]), pg_catalog.unnest($3::pg_catalog.text[]), "
    "pg_catalog.unnest($4::pg_catalog.text[]), pg_catalog.unnest($5::pg_catalog.text[]), "
    "pg_catalog.unnest($6::pg_catalog.text[])) WITH ORDINALITY AS m (payload, key, headers, delay, dedup_id, n)))) "
    "WITH ORDINALITY AS published (id, n) ORDER BY n";
constexpr statement publish_many_statement{"idem_publish_many", kPublishMany};
constexpr statement publish_many_once_statement{"idem_publish_many_once", kPublishMany, true};
constexpr statement take_statement{
    "idem_outbox_take",
    "SELECT fence, id, topic, key, payload::pg_catalog.text, headers::pg_catalog.text, attempt FROM "
    "@idem@.idem_outbox_take($1::pg_catalog.text, $2::pg_catalog.int4, $3::pg_catalog.interval)",
    true};
constexpr statement ack_statement{"idem_outbox_ack",
                                  "SELECT @idem@.idem_outbox_ack($1::pg_catalog.int8[], $2::pg_catalog.int8)", true};
constexpr statement nack_statement{
    "idem_outbox_nack", "SELECT @idem@.idem_outbox_nack($1::pg_catalog.int8[], $2::pg_catalog.int8, $3::pg_catalog.interval)",
    true};

constexpr statement renew_statement{
    "idem_outbox_renew", "SELECT @idem@.idem_outbox_renew($1::pg_catalog.int8[], $2::pg_catalog.int8, $3::pg_catalog.interval)",
    true};
constexpr statement backlog_statement{
    "idem_outbox_backlog",
    "SELECT topic, ready, delayed, leased, parked, "
    "pg_catalog.int8(1000000 OPERATOR(pg_catalog.*) EXTRACT(epoch FROM oldest)) FROM @idem@.idem_outbox_backlog()",
    true};

std::string ids_text(const std::vector<std::int64_t> &ids) {
    std::vector<parameter> elements;
    elements.reserve(ids.size());
    for (const std::int64_t id : ids)
        elements.emplace_back(std::to_string(id));
    return detail::array_text(elements);
}

taken_message message_of(record &answer) {
    return {detail::to_integer(answer.at(1)), std::move(answer.at(2).value()),
            std::move(answer.at(3)),          std::move(answer.at(4).value()),
            std::move(answer.at(5)),          static_cast<int>(detail::to_integer(answer.at(6)))};
}

std::optional<std::int64_t> id_of(const record &answer) {
    if (!answer.at(0))
        return std::nullopt;
    return detail::to_integer(answer.at(0));
}

int count_of(const detail::rows &answer) { return static_cast<int>(detail::to_integer(answer.at(0).at(0))); }

} // namespace

std::vector<std::int64_t> batch::ids() const {
    std::vector<std::int64_t> all;
    all.reserve(messages.size());
    for (const taken_message &each : messages)
        all.push_back(each.id);
    return all;
}

std::optional<std::int64_t> publish(const target &at, const outgoing_message &message) {
    return id_of(detail::call(at, {message.dedup_id ? &publish_once_statement : &publish_statement,
                                   {message.topic, message.payload, message.key, message.headers,
                                    detail::interval_text(message.delay), message.dedup_id},
                                   {message.topic, ""}})
                     .at(0));
}

std::vector<std::optional<std::int64_t>> publish_many(const target &at, const std::string &topic,
                                                      const std::vector<bulk_message> &messages) {
    // An array for each member.
    const auto all = [&](auto member) {
        std::vector<parameter> values;
        values.reserve(messages.size());
        for (const bulk_message &each : messages)
            values.push_back(member(each));
        return detail::array_text(values);
    };
    const bool repeatable =
        std::all_of(messages.begin(), messages.end(), [](const bulk_message &each) { return each.dedup_id.has_value(); });
    std::vector<std::optional<std::int64_t>> ids;
    ids.reserve(messages.size());
    for (const record &each : detail::call(
             at, {repeatable ? &publish_many_once_statement : &publish_many_statement,
                  {topic, all([](const bulk_message &m) { return parameter(m.payload); }),
                   all([](const bulk_message &m) { return m.key; }), all([](const bulk_message &m) { return m.headers; }),
                   all([](const bulk_message &m) { return detail::interval_text(m.delay); }),
                   all([](const bulk_message &m) { return m.dedup_id; })},
                  {topic, ""}}))
        ids.push_back(id_of(each));
    return ids;
}

batch take(const target &at, const std::string &topic, int max_messages, duration lease) {
    batch taken;
    for (record &each : detail::call(
             at, {&take_statement, {topic, std::to_string(max_messages), detail::interval_text(lease)}, {topic, ""}})) {
        taken.fence = detail::to_integer(each.at(0));
        taken.messages.push_back(message_of(each));
    }
    return taken;
}

int ack(const target &at, const std::vector<std::int64_t> &ids, std::int64_t fence) {
    return count_of(detail::call(at, {&ack_statement, {ids_text(ids), std::to_string(fence)}, {}}));
}

int nack(const target &at, const std::vector<std::int64_t> &ids, std::int64_t fence,
         const std::optional<duration> &retry_after) {
    return count_of(
        detail::call(at, {&nack_statement, {ids_text(ids), std::to_string(fence), detail::interval_text(retry_after)}, {}}));
}

int renew(const target &at, const std::vector<std::int64_t> &ids, std::int64_t fence, duration lease) {
    return count_of(
        detail::call(at, {&renew_statement, {ids_text(ids), std::to_string(fence), detail::interval_text(lease)}, {}}));
}

std::vector<topic_backlog> backlog(const target &at) {
    std::vector<topic_backlog> topics;
    for (record &each : detail::call(at, {&backlog_statement, {}, {}}))
        topics.push_back({std::move(each.at(0).value()), detail::to_integer(each.at(1)), detail::to_integer(each.at(2)),
                          detail::to_integer(each.at(3)), detail::to_integer(each.at(4)), detail::time_of(each.at(5))});
    return topics;
}

} // namespace idem
