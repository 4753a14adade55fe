#include "gateway.hpp"

#include <httplib.h>

namespace checkout {
namespace {

nlohmann::json parse(const httplib::Result &reply) {
    if (!reply)
        throw GatewaySilent{"the gateway did not answer: " + httplib::to_string(reply.error())};
    if (reply->status != 200)
        throw GatewaySilent{"the gateway answered " + std::to_string(reply->status)};
    return nlohmann::json::parse(reply->body);
}

httplib::Client connect(const std::string &url) {
    httplib::Client client{url};
    client.set_connection_timeout(1);
    client.set_read_timeout(1, 500'000);
    return client;
}

} // namespace

nlohmann::json Gateway::charges() const {
    auto client = connect(url_);
    return parse(client.Get("/charges"));
}

std::optional<nlohmann::json> Gateway::find(const std::string &key) const {
    auto client = connect(url_);
    const auto reply = client.Get("/charges/" + key);
    if (reply && reply->status == 404)
        return std::nullopt;
    return parse(reply);
}

nlohmann::json Gateway::post(const char *path, const nlohmann::json &body) const {
    auto client = connect(url_);
    return parse(client.Post(path, body.dump(), "application/json"));
}

} // namespace checkout
