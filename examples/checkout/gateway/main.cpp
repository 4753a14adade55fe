// A payment gateway that behaves as the real ones do on a bad day: slow, losing replies after it has charged, and calling
// back more than once. It keeps its own books, so that they can be compared with the shop's.
//
//   POST /charges   {"key", "order", "scheme", "amount", "callback", "delay", "callbacks", "lose", "decline"}
//                   key: requests with the same one are the same charge; null: each is one of its own
//                   delay: ms until the reply · callbacks: how often it calls back · lose: how many replies get lost
//   POST /cancel    {"key", "order", "scheme"}: takes a charge back, or makes sure that it never happens
//   GET  /charges/KEY   the charge with this key; 404: it never was
//   GET  /charges   the books
//   POST /reset     empties them (--test)
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "../process.hpp"

namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr int kMostDeliveries = 50;
constexpr int kLongestDelay = 60'000;

struct Charge {
    std::string id, order, scheme, status;
    std::optional<std::string> key;
    int amount = 0;
    int requests = 0;  // how often it was asked for
    int callbacks = 0; // how often the shop was told, and answered
    int lose = 0;      // replies still to be lost
    std::string message{};
};

json to_json(const Charge &charge) {
    return {{"id", charge.id},
            {"order", charge.order},
            {"scheme", charge.scheme},
            {"key", charge.key ? json(*charge.key) : json()},
            {"amount", charge.amount},
            {"status", charge.status},
            {"requests", charge.requests},
            {"callbacks", charge.callbacks}};
}

int knob(const json &request, const char *name, int otherwise, int most) {
    const int value = request.value(name, otherwise);
    return value < 0 ? 0 : value > most ? most : value;
}

class Books {
  public:
    struct Entry {
        Charge charge;
        bool fresh;
        bool reply_gets_lost;
    };

    // Charges the card, or finds that it was.
    Entry charge(const json &request) {
        const std::lock_guard lock{mutex_};
        Charge *known = request.at("key").is_string() ? find(request.at("key").get<std::string>()) : nullptr;
        const bool fresh = !known;
        if (fresh) {
            known = &open(request);
            known->status = request.value("decline", false) ? "declined" : "charged";
            known->amount = request.at("amount").get<int>();
            known->lose = knob(request, "lose", 0, kMostDeliveries);
            if (!known->key && known->lose > 0 && ++lost_[known->order] > known->lose)
                known->lose = 0;
        }
        ++known->requests;
        const bool lost = known->lose > 0;
        known->lose -= lost;
        return {*known, fresh, lost};
    }

    // A key that was never charged is closed for good: the request may still be on its way.
    Charge cancel(const json &request) {
        const std::lock_guard lock{mutex_};
        Charge *known = find(request.at("key").get<std::string>());
        if (!known) {
            known = &open(request);
            known->status = "canceled";
        } else if (known->status == "charged") {
            known->status = "refunded";
        }
        return *known;
    }

    std::optional<Charge> with_key(const std::string &key) {
        const std::lock_guard lock{mutex_};
        const Charge *known = find(key);
        return known ? std::optional{*known} : std::nullopt;
    }

    void delivered(const std::string &id) {
        const std::lock_guard lock{mutex_};
        for (Charge &charge : charges_)
            charge.callbacks += charge.id == id;
    }

    json all() const {
        const std::lock_guard lock{mutex_};
        json list = json::array();
        for (const Charge &charge : charges_)
            list.push_back(to_json(charge));
        return list;
    }

    void reset() {
        const std::lock_guard lock{mutex_};
        charges_.clear();
        by_key_.clear();
        lost_.clear();
    }

  private:
    Charge *find(const std::string &key) {
        const auto found = by_key_.find(key);
        return found == by_key_.end() ? nullptr : found->second;
    }

    Charge &open(const json &request) {
        Charge charge;
        charge.id = "ch_" + std::to_string(++last_);
        charge.order = request.at("order").get<std::string>();
        charge.scheme = request.value("scheme", "");
        // Unlike any other run's: the shop remembers what it has seen.
        charge.message = "msg_" + std::to_string(epoch_) + "_" + std::to_string(last_);
        if (request.at("key").is_string())
            charge.key = request.at("key").get<std::string>();
        charges_.push_back(charge);
        if (charge.key)
            by_key_[*charge.key] = &charges_.back();
        return charges_.back();
    }

    mutable std::mutex mutex_;
    std::deque<Charge> charges_; // grows at the end: pointers stay good
    std::map<std::string, Charge *> by_key_;
    std::map<std::string, int> lost_; // by order, for charges without a key
    int last_ = 0;
    const long long epoch_ = std::chrono::system_clock::now().time_since_epoch().count() / 1'000;
};

// Calls the shop `times` times with the same message, and goes on when it does not answer.
class Messenger {
  public:
    explicit Messenger(Books &books) : books_{books} {}

    void send(const Charge &charge, const std::string &url, int times) {
        // Of this machine only.
        const auto path = url.find('/', std::strlen("http://"));
        if (times == 0 || !url.starts_with("http://127.0.0.1:") || path == std::string::npos)
            return;
        const std::lock_guard lock{mutex_};
        threads_.emplace_back([this, charge, host = url.substr(0, path), to = url.substr(path),
                               times](const std::stop_token &stop) {
            const json message{{"message", charge.message}, {"order", charge.order},   {"scheme", charge.scheme},
                               {"status", charge.status},   {"amount", charge.amount}, {"charge", charge.id}};
            std::this_thread::sleep_for(300ms);
            for (int done = 0, tried = 0; done < times && tried < times + kMostDeliveries && !stop.stop_requested(); ++tried) {
                httplib::Client shop{host};
                const auto reply = shop.Post(to, message.dump(), "application/json");
                if (reply && reply->status / 100 == 2) {
                    ++done;
                    books_.delivered(charge.id);
                }
                std::this_thread::sleep_for(120ms);
            }
        });
    }

  private:
    Books &books_;
    std::mutex mutex_;
    std::vector<std::jthread> threads_;
};

// The connection ends before the reply that was announced.
void hang_up(httplib::Response &response) {
    response.set_content_provider(1, "application/json", [](std::size_t, std::size_t, httplib::DataSink &) { return false; });
}

void serve(httplib::Server &server, Books &books, Messenger &messenger, bool test) {
    server.Post("/charges", [&](const httplib::Request &request, httplib::Response &response) {
        const json asked = json::parse(request.body);
        const auto entry = books.charge(asked);
        if (entry.fresh) {
            messenger.send(entry.charge, asked.at("callback").get<std::string>(), knob(asked, "callbacks", 1, kMostDeliveries));
            std::this_thread::sleep_for(std::chrono::milliseconds{knob(asked, "delay", 0, kLongestDelay)});
        }
        if (entry.reply_gets_lost)
            hang_up(response);
        else
            response.set_content(to_json(entry.charge).dump(), "application/json");
    });
    server.Post("/cancel", [&](const httplib::Request &request, httplib::Response &response) {
        response.set_content(to_json(books.cancel(json::parse(request.body))).dump(), "application/json");
    });
    server.Get("/charges/([^/]+)", [&](const httplib::Request &request, httplib::Response &response) {
        if (const auto known = books.with_key(request.matches[1]))
            response.set_content(to_json(*known).dump(), "application/json");
        else
            response.status = 404;
    });
    server.Get("/charges", [&](const httplib::Request &, httplib::Response &response) {
        response.set_content(books.all().dump(), "application/json");
    });
    if (test)
        server.Post("/reset", [&](const httplib::Request &, httplib::Response &response) {
            books.reset();
            response.set_content("{}", "application/json");
        });
    server.set_exception_handler([](const httplib::Request &, httplib::Response &response, std::exception_ptr) {
        response.status = 400;
        response.set_content("{}", "application/json");
    });
}

} // namespace

int main(int argc, char **argv) {
    bool test = false;
    for (int i = 1; i < argc; ++i) {
        if (std::string_view{argv[i]} != "--test") {
            std::fputs("Usage: idem-checkout-gateway [--test]\nPrints the URL that it listens at.\n", stderr);
            return 2;
        }
        test = true;
    }
    httplib::Server server;
    server.new_task_queue = [] { return new httplib::ThreadPool{64}; };
    server.set_keep_alive_max_count(1);
    Books books;
    Messenger messenger{books};
    serve(server, books, messenger, test);

    const checkout::OnEnd on_end{[&server] { server.stop(); }};
    const int port = server.bind_to_any_port("127.0.0.1");
    if (port < 0) {
        std::fputs("idem-checkout-gateway: could not listen\n", stderr);
        return 1;
    }
    std::printf("http://127.0.0.1:%d\n", port);
    std::fflush(stdout);
    server.listen_after_bind();
}
