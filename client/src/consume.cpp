#include <idem/consume.hpp>

#include <unordered_map>

#include "key_statements.hpp"

namespace idem::detail {

std::string inbox_key(const std::string &consumer, const std::string &message_id) {
    std::string key;
    const auto append = [&](const std::string &part) {
        for (const char c : part) {
            if (c == ':' || c == '\\')
                key += '\\';
            key += c;
        }
    };
    append(consumer);
    key += ':';
    append(message_id);
    return key;
}

request inbox_request(const std::string &consumer, const std::string &message_id, const consume_options &options) {
    request about{inbox_key(consumer, message_id)};
    about.in(options.scope).wait(options.wait);
    if (options.ttl)
        about.ttl(*options.ttl);
    return about;
}

command inbox_step(const std::string &consumer, const std::vector<std::string> &message_ids, const consume_options &options) {
    std::vector<parameter> keys;
    for (const std::string &id : message_ids)
        keys.push_back(inbox_key(consumer, id));
    return claim_many_command(keys, options.ttl, options.scope);
}

std::vector<std::string> new_message_ids(const rows &answer, const std::string &consumer,
                                         const std::vector<std::string> &message_ids) {
    std::unordered_map<std::string, const std::string *> id_of;
    for (const std::string &id : message_ids)
        id_of.emplace(inbox_key(consumer, id), &id);
    std::vector<std::string> new_ids;
    for (const record &each : answer)
        new_ids.push_back(*id_of.at(each.at(0).value()));
    return new_ids;
}

} // namespace idem::detail
