// How the shop talks to the gateway, which is another company's: over HTTP, with a time limit, and prepared to hear nothing.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace checkout {

// No answer, or none in time: nobody knows whether the card was charged.
struct GatewaySilent : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Gateway {
  public:
    explicit Gateway(std::string url) : url_{std::move(url)} {}

    // `charge` is the request's body; the answer's. Throws GatewaySilent, as all below.
    nlohmann::json charge(const nlohmann::json &charge) const { return post("/charges", charge); }
    // The charge with this key; nothing: there is none.
    std::optional<nlohmann::json> find(const std::string &key) const;
    // Takes the charge with this key back, or makes sure that it never happens.
    nlohmann::json cancel(const nlohmann::json &what) const { return post("/cancel", what); }
    // Everything that the gateway has on its books.
    nlohmann::json charges() const;
    void reset() const { post("/reset", nlohmann::json::object()); }

  private:
    nlohmann::json post(const char *path, const nlohmann::json &body) const;

    std::string url_;
};

} // namespace checkout
