#include "api.hpp"

#include <idem/requests.hpp>

#include "libpqxx.hpp"

namespace checkout::api {
namespace {

using nlohmann::json;

constexpr const char *kScheme = "key";
constexpr double kRate = 20; // orders a second and caller
constexpr int kBurst = 40;

void add_headers(Reply &reply, const char *headers) {
    const json all = json::parse(headers);
    for (const auto &[name, value] : all.items())
        if (value.is_string())
            reply.headers[name] = value.get<std::string>();
}

// A replay or a rejection; nothing when the work is to be done.
std::optional<Reply> begin(idem::transaction &tx, const std::string &idem_schema, const Request &request,
                           const std::string &scope) {
    const auto row = one_row(exec_with(tx,
                                       "SELECT action, status, coalesce(headers, '{}'), coalesce(body, '') FROM " +
                                           idem_schema + ".idem_http_begin($1, $2, $3, $4, $5)",
                                       {scope, request.method, request.route, request.key, request.body}));
    if (row[0].c_str() == std::string{"run"})
        return std::nullopt;
    Reply reply{row[1].as<int>(), {}, row[3].c_str(), row[0].c_str() == std::string{"replay"}};
    add_headers(reply, row[2].c_str());
    return reply;
}

void complete(idem::transaction &tx, const std::string &idem_schema, const Request &request, const std::string &scope,
              const Reply &reply) {
    exec_with(tx, "SELECT " + idem_schema + ".idem_http_complete($1, $2, $3, $4, $5)",
              {scope, request.key, std::to_string(reply.status), json(reply.headers).dump(), reply.body});
}

const char *name(const Reply &reply) {
    if (reply.replayed)
        return "replay";
    return reply.status < 300 ? "run" : "reject";
}

} // namespace

Reply problem(int status, const char *title, const char *code) {
    const json body{{"type", "about:blank"}, {"title", title}, {"status", status}, {"code", code}};
    return {status, {{"Content-Type", "application/problem+json"}}, body.dump()};
}

Reply create_order(Shop &shop, const Request &request, const std::function<Cart()> &cart) {
    // One caller's keys are nobody else's business.
    const std::string scope = "checkout api " + request.caller;
    const std::string idem_schema = shop.db.schema();
    std::string order;
    Reply reply;
    try {
        reply = idem::transact(shop.db, [&](idem::transaction &tx) -> Reply {
            if (auto known = begin(tx, idem_schema, request, scope))
                return *std::move(known);
            const Submission submission{kScheme, request.caller, cart()};
            order = place_order(tx, submission, request.key.value_or(""));
            const json made{{"order", order}, {"status", "reserved"}, {"amount", submission.cart.quantity * 2500}};
            const Reply created{
                201, {{"Content-Type", "application/json"}, {"Location", std::string{"/key/order/"} + order}}, made.dump()};
            complete(tx, idem_schema, request, scope, created);
            return created;
        });
    } catch (const SoldOut &) {
        reply = problem(409, "Sold out", "sold_out"); // rolled back: the key is free
    } catch (const std::invalid_argument &) {
        reply = problem(400, "Bad Request", "bad_request");
    }
    if (reply.status < 300)
        order = json::parse(reply.body).value("order", "");
    shop.diary.note(kScheme, "idem_http_begin", std::string{name(reply)} + " " + std::to_string(reply.status), order);
    return reply;
}

Reply create_signed_order(Shop &shop, const Signed &request, const std::function<Cart()> &cart) {
    if (!is_number(request.signed_at))
        return problem(401, "Unauthorized", "invalid");
    idem::signed_request about{request.body, request.signature, request.key_id, {}, request.nonce};
    about.signed_at += std::chrono::microseconds{std::stoll(request.signed_at)};
    std::string order;
    auto said = idem::request_outcome::invalid;
    Reply reply = problem(401, "Unauthorized", "invalid");
    try {
        idem::transact(shop.db, [&](idem::transaction &tx) {
            order.clear();
            said = idem::verify_request(tx, about);
            if (said == idem::request_outcome::accepted)
                order = place_order(tx, {kScheme, "partner " + request.key_id, cart()}, request.nonce);
        });
        if (said == idem::request_outcome::accepted)
            reply = {201, {{"Content-Type", "application/json"}}, json{{"order", order}, {"status", "reserved"}}.dump()};
        else if (said == idem::request_outcome::replayed)
            reply = problem(409, "Conflict", "replayed");
        else if (said == idem::request_outcome::stale)
            reply = problem(401, "Unauthorized", "stale");
    } catch (const SoldOut &) {
        reply = problem(409, "Sold out", "sold_out"); // rolled back: the nonce is good again
    } catch (const std::invalid_argument &) {
        reply = problem(400, "Bad Request", "bad_request");
    } catch (const idem::bad_input &) {
        reply = problem(400, "Bad Request", "bad_request");
    }
    shop.diary.note(kScheme, "idem_verify_request", idem::name(said), order);
    return reply;
}

std::optional<Reply> refuse_too_many(Shop &shop, const std::string &caller) {
    idem::rate_limit limit{kRate, kBurst};
    limit.scope = "checkout";
    const idem::admission admitted = idem::allow(shop.db, caller, limit);
    if (admitted.allowed)
        return std::nullopt;
    Reply reply = problem(429, "Too Many Requests", "rate_limited");
    const auto wait = std::chrono::ceil<std::chrono::seconds>(admitted.retry_after.value_or(std::chrono::seconds{1}));
    reply.headers["Retry-After"] = std::to_string(wait.count());
    shop.diary.note(kScheme, "idem_allow", "false");
    return reply;
}

} // namespace checkout::api
