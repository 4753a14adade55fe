#include "request.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace checkout {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestNote = 60;

std::string value_of(const Values &values, const char *name, const char *otherwise) {
    const auto found = values.find(name);
    return found == values.end() || found->second.empty() ? otherwise : found->second;
}

int number_of(const Values &values, const char *name, int otherwise) {
    const std::string text = value_of(values, name, "");
    if (text.empty())
        return otherwise;
    if (!is_number(text) || text.size() > 6)
        throw std::invalid_argument{std::string{name} + " is not a number"};
    return std::stoi(text);
}

// The gateway's good and bad days.
json preset(const std::string &name) {
    if (name == "normal")
        return {{"delay", 400}};
    if (name == "slow")
        return {{"delay", 3000}};
    if (name == "loses")
        return {{"lose", 1}};
    if (name == "repeats")
        return {{"callbacks", 5}};
    if (name == "declines")
        return {{"decline", true}};
    if (name == "silent")
        return {{"callbacks", 0}};
    throw std::invalid_argument{"there is no such gateway"};
}

json test_knobs(const Values &values, json knobs) {
    for (const char *name : {"delay", "callbacks", "lose"})
        if (values.count(name))
            knobs[name] = number_of(values, name, 0);
    if (values.count("decline"))
        knobs["decline"] = number_of(values, "decline", 0) != 0;
    return knobs;
}

std::size_t characters(const std::string &utf8) {
    return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

} // namespace

Cart read_cart(const Settings &settings, const Values &values) {
    Cart cart{number_of(values, "quantity", 1), value_of(values, "note", ""), preset(value_of(values, "gateway", "normal")),
              settings.hold};
    if (cart.quantity < 1 || cart.quantity > 5)
        throw std::invalid_argument{"quantity is not 1 to 5"};
    if (!is_utf8(cart.note) || characters(cart.note) > kLongestNote || cart.note.find('\0') != std::string::npos)
        throw std::invalid_argument{"the note is too long or not text"};
    if (settings.test) {
        cart.gateway = test_knobs(values, std::move(cart.gateway));
        cart.hold = std::chrono::milliseconds{number_of(values, "hold", static_cast<int>(cart.hold.count()))};
    }
    return cart;
}

Values read_json(const std::string &text) {
    // A name that comes twice would mean one thing to whoever checked the body and another to whoever reads it.
    std::set<std::string> names;
    const auto once = [&](int, json::parse_event_t event, json &name) {
        if (event == json::parse_event_t::key && !names.insert(name.get<std::string>()).second)
            throw std::invalid_argument{"a name comes twice"};
        return true;
    };
    const json object = json::parse(text, once, false);
    if (!object.is_object())
        throw std::invalid_argument{"the body is not a JSON object"};
    Values values;
    for (const auto &[name, value] : object.items()) {
        if (value.is_structured() || value.is_null())
            throw std::invalid_argument{name + " is neither text nor a number"};
        values[name] = value.is_string() ? value.get<std::string>() : value.is_boolean() ? (value ? "1" : "0") : value.dump();
    }
    return values;
}

bool is_utf8(const std::string &text) {
    // The library knows: it refuses to write what is not.
    try {
        static_cast<void>(json(text).dump());
        return true;
    } catch (const json::type_error &) {
        return false;
    }
}

bool is_hex32(const std::string &text) {
    return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

} // namespace checkout
