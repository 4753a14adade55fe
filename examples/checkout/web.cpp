#include "web.hpp"

#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>

#include "api.hpp"
#include "cashier.hpp"
#include "request.hpp"
#include "scheme.hpp"
#include "state.hpp"

namespace checkout {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::json;

constexpr int kMostLooks = 40;
constexpr auto kBetweenLooks = 50ms;
constexpr const char *kHtml = "text/html; charset=utf-8";
constexpr const char *kJson = "application/json";

// --- What a request says -----------------------------------------------------------------------------------------------------

std::string cookie(const Request &request, const std::string &name) {
    const std::string all = "; " + request.get_header_value("Cookie"), wanted = "; " + name + "=";
    const auto at = all.find(wanted);
    if (at == std::string::npos)
        return "";
    const auto from = at + wanted.size();
    return all.substr(from, all.find(';', from) - from);
}

Values values_of(const Request &request) {
    Values values;
    for (const auto &[name, value] : request.params)
        values.emplace(name, value);
    return values;
}

Language language_of(const Request &request) {
    std::string asked = request.get_param_value("lang");
    if (asked.empty())
        asked = cookie(request, "lang");
    if (asked.empty())
        asked = request.get_header_value("Accept-Language").substr(0, 2);
    return asked == "zh" ? Language::zh : Language::en;
}

// Who asks; a stranger is given a cookie.
std::string visitor_of(const Request &request, Response &response) {
    const std::string known = cookie(request, "visitor");
    if (is_hex32(known))
        return known;
    const std::string visitor = random_hex();
    response.headers.emplace("Set-Cookie", "visitor=" + visitor + "; Path=/; HttpOnly; SameSite=Lax");
    return visitor;
}

Pages::Page page_of(const Request &request, Response &response, const Scheme *scheme) {
    const Language language = language_of(request);
    if (request.has_param("lang"))
        response.headers.emplace("Set-Cookie", std::string{"lang="} + name(language) + "; Path=/; SameSite=Lax");
    return {language, scheme ? std::string{"/"} + scheme->name : request.path, scheme};
}

int status_of(Outcome outcome) {
    switch (outcome) {
    case Outcome::ordered:
    case Outcome::already:
        return 200;
    case Outcome::in_flight:
    case Outcome::conflict:
    case Outcome::sold_out:
        return 409;
    case Outcome::expired:
        return 410;
    case Outcome::invalid:
        return 400;
    case Outcome::mismatch:
        return 422;
    case Outcome::busy:
        return 503;
    case Outcome::error:
        break;
    }
    return 500;
}

// --- A click on "Pay" --------------------------------------------------------------------------------------------------------

Answer submit_once(Shop &shop, const Scheme &scheme, const Submission &submission) {
    try {
        return scheme.submit(shop, submission);
    } catch (const SoldOut &) {
        return {Outcome::sold_out, "", "", ""};
    } catch (const idem::bad_input &) {
        return {Outcome::invalid, "", "", ""};
    }
}

// Another request may be at the same order, or the answer to a COMMIT may have been lost. Asking again is safe: that is what
// the schemes are for.
Answer submit(Shop &shop, const Scheme &scheme, const Submission &submission) {
    Answer answer{Outcome::error};
    for (int look = 0; look < kMostLooks; ++look) {
        try {
            answer = submit_once(shop, scheme, submission);
        } catch (const idem::outcome_unknown &) {
            if (&scheme == &kPlain)
                throw;
            answer = {Outcome::in_flight};
        }
        if (answer.outcome != Outcome::in_flight)
            break;
        std::this_thread::sleep_for(kBetweenLooks);
    }
    if (!answer.call.empty())
        shop.diary.note(scheme.name, answer.call, answer.said, answer.order);
    return answer;
}

// Its fields as they are in the form; throws std::invalid_argument for a cart that is none.
Submission submission_of(const Shop &shop, const Request &request, const Scheme &scheme, std::string visitor) {
    Submission submission{scheme.name, std::move(visitor), {}, {}};
    submission.fields = values_of(request);
    submission.fields.erase("lang");
    for (const auto &[name, value] : submission.fields)
        if (value.size() > 1024 || !is_utf8(value))
            throw std::invalid_argument{name + " is too long or not text"};
    submission.cart = read_cart(shop.settings, submission.fields);
    return submission;
}

// --- Pages -------------------------------------------------------------------------------------------------------------------

class Site {
  public:
    Site(Shop &shop, const Pages &pages) : shop_{shop}, pages_{pages} {}

    void overview(const Request &request, Response &response) const {
        static_cast<void>(visitor_of(request, response));
        html(response, pages_.overview(page_of(request, response, nullptr)));
    }

    void form(const Request &request, Response &response, const Scheme &scheme) const {
        const auto page = page_of(request, response, &scheme);
        show(response, page, fresh_form(request, page, visitor_of(request, response), {}));
    }

    void click(const Request &request, Response &response, const Scheme &scheme) const {
        const auto page = page_of(request, response, &scheme);
        const std::string visitor = visitor_of(request, response);
        std::optional<Submission> submission;
        Answer answer{Outcome::invalid};
        try {
            submission = submission_of(shop_, request, scheme, visitor);
            answer = submit(shop_, scheme, *submission);
        } catch (const std::invalid_argument &) {
        }
        const bool done = answer.outcome == Outcome::ordered || answer.outcome == Outcome::already;
        if (&scheme == &kPrg && done) {
            response.status = 303;
            response.set_header("Location", std::string{"/prg/order/"} + answer.order + "?lang=" + name(page.language) +
                                                (answer.outcome == Outcome::already ? "&again=1" : ""));
            return;
        }
        response.status = status_of(answer.outcome);
        std::string content = pages_.message(page, answer);
        if (!answer.order.empty())
            content += order_card(page, visitor, answer.order, next_of(scheme, submission));
        else if (answer.outcome == Outcome::in_flight && submission)
            content += pages_.again(page, *submission);
        if (!done && answer.outcome != Outcome::in_flight)
            content += fresh_form(request, page, visitor, submission ? submission->cart : Cart{});
        show(response, page, content);
    }

    void order(const Request &request, Response &response, const Scheme &scheme) const {
        const auto page = page_of(request, response, &scheme);
        const std::string visitor = visitor_of(request, response), id = request.matches[1];
        const std::string card = order_card(page, visitor, id, std::string{"/"} + scheme.name);
        if (card.empty()) {
            response.status = 404;
            return;
        }
        std::string message;
        if (&scheme == &kPrg)
            message = pages_.message(page, {request.has_param("again") ? Outcome::already : Outcome::ordered, id});
        show(response, page, message + card);
    }

    void order_state(const Request &request, Response &response, const Scheme &scheme) const {
        const auto page = page_of(request, response, &scheme);
        const auto order = find_order(shop_, scheme.name, visitor_of(request, response), request.matches[1]);
        if (order)
            html(response, pages_.order_state(page, *order));
        else
            response.status = 404;
    }

    void panel(const Request &request, Response &response, const Scheme &scheme) const {
        const auto page = page_of(request, response, &scheme);
        html(response, pages_.panel(page, state_of(shop_, scheme.name)));
    }

    void file(const Request &request, Response &response) const {
        const std::string name = request.matches[1], type = request.matches[2];
        const std::string text = pages_.file(name);
        if (text.empty())
            response.status = 404;
        else
            response.set_content(text, type == "css"  ? "text/css; charset=utf-8"
                                       : type == "js" ? "text/javascript; charset=utf-8"
                                                      : "image/svg+xml");
    }

  private:
    static void html(Response &response, const std::string &text) { response.set_content(text, kHtml); }

    void show(Response &response, const Pages::Page &page, const std::string &content) const {
        html(response, pages_.scheme(page, content, state_of(shop_, page.scheme->name)));
    }

    std::string fresh_form(const Request &request, const Pages::Page &page, const std::string &visitor,
                           const Cart &cart) const {
        Visit visit{shop_, visitor, values_of(request)};
        const auto ttl = visit.query.find("ttl");
        if (shop_.settings.test && ttl != visit.query.end() && is_number(ttl->second) && request.method == "GET")
            visit.token_ttl = std::chrono::seconds{std::stoll(ttl->second.substr(0, 5))};
        if (request.method != "GET")
            visit.query.clear();
        return pages_.form(page, page.scheme->fields(visit), cart);
    }

    // Empty: not this visitor's.
    std::string order_card(const Pages::Page &page, const std::string &visitor, const std::string &id,
                           const std::string &next) const {
        const auto order = find_order(shop_, page.scheme->name, visitor, id);
        return order ? pages_.order(page, *order, next) : "";
    }

    // Where a new form is to be had: the same page goes on counting.
    static std::string next_of(const Scheme &scheme, const std::optional<Submission> &submission) {
        const std::string path = std::string{"/"} + scheme.name;
        if (&scheme != &kCounter || !submission || !is_number(submission->field("counter")))
            return path;
        return path + "?page=" + submission->field("page") +
               "&counter=" + std::to_string(std::stoll(submission->field("counter")) + 1);
    }

    Shop &shop_;
    const Pages &pages_;
};

// --- The API -----------------------------------------------------------------------------------------------------------------

void put(Response &response, const api::Reply &reply) {
    response.status = reply.status;
    std::string type = kJson;
    for (const auto &[name, value] : reply.headers)
        if (name == "Content-Type")
            type = value;
        else
            response.set_header(name, value);
    response.set_content(reply.body, type);
}

// For those who want to see a retry: the order is made, and the answer gets lost on its way.
class LostReplies {
  public:
    bool lose(const std::string &key, const Values &values) {
        const auto wanted = values.find("lose_shop_reply");
        if (wanted == values.end() || !is_number(wanted->second))
            return false;
        const std::lock_guard lock{mutex_};
        return lost_[key]++ < std::stoll(wanted->second);
    }

  private:
    std::mutex mutex_;
    std::map<std::string, int> lost_;
};

void hang_up(Response &response) {
    response.body.clear();
    response.headers.erase("Content-Type");
    response.set_content_provider(1, kJson, [](std::size_t, std::size_t, httplib::DataSink &) { return false; });
}

class Api {
  public:
    explicit Api(Shop &shop) : shop_{shop} {}

    void create_order(const Request &request, Response &response) {
        const std::string known = cookie(request, "visitor");
        const std::string caller = is_hex32(known) ? known : "guest";
        if (const auto refused = api::refuse_too_many(shop_, caller))
            return put(response, *refused);
        if (!is_utf8(request.body))
            return put(response, api::problem(400, "Bad Request", "bad_request"));

        const auto key =
            request.has_header("Idempotency-Key") ? std::optional{request.get_header_value("Idempotency-Key")} : std::nullopt;
        put(response, api::create_order(shop_, {"POST", "/api/orders", key, request.body, caller},
                                        [&] { return read_cart(shop_.settings, read_json(request.body)); }));
        if (response.status == 201 && lost_.lose(caller + key.value_or(""), read_json(request.body)))
            hang_up(response);
    }

    void create_signed_order(const Request &request, Response &response) {
        if (const auto refused = api::refuse_too_many(shop_, "address " + request.remote_addr))
            return put(response, *refused);
        const auto header = [&](const char *name) { return request.get_header_value(name); };
        const api::Signed signed_request{header("X-Key-Id"), header("X-Signature"), header("X-Nonce"), header("X-Signed-At"),
                                         request.body};
        for (const std::string &text : {signed_request.key_id, signed_request.signature, signed_request.nonce, request.body})
            if (!is_utf8(text))
                return put(response, api::problem(400, "Bad Request", "bad_request"));
        put(response, api::create_signed_order(shop_, signed_request,
                                               [&] { return read_cart(shop_.settings, read_json(request.body)); }));
    }

    void get_state(const Request &request, Response &response) const {
        const std::string one = request.get_param_value("scheme");
        json all = state(shop_);
        if (!one.empty())
            for (const Scheme *scheme : kSchemes)
                if (scheme->name != one)
                    all["schemes"].erase(scheme->name);
        response.set_content(all.dump(), kJson);
    }

    void reset_shop(const Request &request, Response &response) const {
        const std::string stock = request.get_param_value("stock");
        reset(shop_, is_number(stock) && stock.size() < 7 ? std::stoi(stock) : 20);
        Gateway{shop_.settings.gateway}.reset();
        response.status = 204;
    }

    void callback(const Request &request, Response &response) const {
        receive(shop_, json::parse(request.body));
        response.status = 204;
    }

  private:
    Shop &shop_;
    LostReplies lost_;
};

void report(std::exception_ptr problem) {
    try {
        std::rethrow_exception(problem);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "checkout: %s\n", error.what());
    }
}

} // namespace

void serve(httplib::Server &server, Shop &shop, const Pages &pages) {
    const auto site = std::make_shared<Site>(shop, pages);
    const auto api = std::make_shared<Api>(shop);
    const auto to = [&](auto handler) {
        return [site, handler](const Request &request, Response &response) { ((*site).*handler)(request, response); };
    };
    const auto to_scheme = [&](auto handler, const Scheme *scheme) {
        return [site, handler, scheme](const Request &request, Response &response) {
            ((*site).*handler)(request, response, *scheme);
        };
    };
    const auto to_api = [&](auto handler) {
        return [api, handler](const Request &request, Response &response) { ((*api).*handler)(request, response); };
    };

    server.Get("/", to(&Site::overview));
    server.Get(R"(/static/([a-z]+\.(css|js|svg)))", to(&Site::file));
    for (const Scheme *scheme : kSchemes) {
        const std::string path = std::string{"/"} + scheme->name;
        server.Get(path, to_scheme(&Site::form, scheme));
        // Not the form's own path: browsers forget the page at a path that they post to, and "back" is to show that very form.
        server.Post(path + "/pay", to_scheme(&Site::click, scheme));
        server.Get(path + "/pay", [path](const Request &, Response &response) { response.set_redirect(path, 303); });
        server.Get(path + "/panel", to_scheme(&Site::panel, scheme));
        server.Get(path + "/order/([0-9]+)", to_scheme(&Site::order, scheme));
        server.Get(path + "/order/([0-9]+)/state", to_scheme(&Site::order_state, scheme));
    }
    server.Post("/api/orders", to_api(&Api::create_order));
    server.Post("/api/signed/orders", to_api(&Api::create_signed_order));
    server.Get("/api/state", to_api(&Api::get_state));
    server.Post("/gateway/callback", to_api(&Api::callback));
    if (shop.settings.test)
        server.Post("/api/reset", to_api(&Api::reset_shop));

    // For the same reason nothing says no-store.
    server.set_default_headers({{"Cache-Control", "private, no-cache"},
                                {"Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; form-action 'self'"},
                                {"X-Content-Type-Options", "nosniff"},
                                {"Referrer-Policy", "same-origin"}});
    server.set_error_handler([](const Request &, Response &response) {
        if (response.body.empty())
            response.set_content(std::to_string(response.status) + "\n", "text/plain; charset=utf-8");
    });
    server.set_exception_handler([](const Request &, Response &response, std::exception_ptr problem) {
        report(problem);
        response.status = 500;
        response.set_content("Something went wrong; nothing is lost. Send it again.\n", "text/plain; charset=utf-8");
    });
    server.set_payload_max_length(64 * 1024);
}

} // namespace checkout
