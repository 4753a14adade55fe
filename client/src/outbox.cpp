#include <idem/outbox.hpp>

namespace idem {

namespace {

using detail::parameter;
using detail::record;
using detail::statement;

constexpr statement publish_statement{"idem_publish", "SELECT @idem@.idem_publish($1::pg_catalog.text, $2::pg_catalog.jsonb, "
                                                      "$3::pg_catalog.text, $4::pg_catalog.jsonb)"};
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

int count_of(const detail::rows &answer) { return static_cast<int>(detail::to_integer(answer.at(0).at(0))); }

} // namespace

std::vector<std::int64_t> batch::ids() const {
    std::vector<std::int64_t> all;
    all.reserve(messages.size());
    for (const taken_message &each : messages)
        all.push_back(each.id);
    return all;
}

std::int64_t publish(const target &at, const outgoing_message &message) {
    return detail::to_integer(
        detail::call(at,
                     {&publish_statement, {message.topic, message.payload, message.key, message.headers}, {message.topic, ""}})
            .at(0)
            .at(0));
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

} // namespace idem
