// The shop's back office: has orders charged, lets holds lapse, takes back charges that came too late, and books what the
// gateway reports. Any number of shops may run it on one database.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "gateway.hpp"
#include "shop.hpp"

namespace checkout {

// What the gateway is told of an order; `key`: null for those who think that they need none.
nlohmann::json charge_request(const Shop &shop, const std::string &id, const std::string &scheme, int amount,
                              const nlohmann::json &knobs, const nlohmann::json &key);

class Cashier {
  public:
    // Starts the threads; the destructor stops them.
    explicit Cashier(Shop &shop);
    ~Cashier();

  private:
    void run(const std::stop_token &stop, const std::function<bool()> &step);
    bool charge_one();
    bool cancel_one();
    bool release_one();

    Shop &shop_;
    Gateway gateway_;
    std::vector<std::jthread> threads_;
};

// One message of the gateway's, {"message", "order", "scheme", "status", "amount"}; it may come any number of times.
void receive(Shop &shop, const nlohmann::json &message);

} // namespace checkout
