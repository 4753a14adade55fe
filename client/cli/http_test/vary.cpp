#include "http_test/vary.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

namespace idem::cli::http_test {

namespace {

using json = nlohmann::ordered_json;

std::optional<json> object_of(const std::string &body) {
    json parsed = json::parse(body, nullptr, false);
    if (!parsed.is_object())
        return std::nullopt;
    return parsed;
}

/// Applies `change` to the first value, depth first, for which it returns true.
bool change_first(json &value, const std::function<bool(json &)> &change) {
    if (value.is_structured()) {
        for (json &each : value)
            if (change_first(each, change))
                return true;
    }
    return change(value);
}

std::optional<std::string> varied(const std::string &body, const std::function<bool(json &)> &change) {
    std::optional<json> parsed = object_of(body);
    if (!parsed || !change_first(*parsed, change))
        return std::nullopt;
    return parsed->dump();
}

} // namespace

std::string changed(const std::string &body) {
    if (!object_of(body))
        return body + "1";
    const auto number = [](json &value) {
        if (!value.is_number_integer())
            return false;
        value = value.get<long long>() + 1;
        return true;
    };
    const auto text = [](json &value) {
        if (!value.is_string())
            return false;
        value = value.get<std::string>() + "x";
        return true;
    };
    return varied(body, number).value_or(varied(body, text).value_or(""));
}

std::optional<std::string> with_other_member_order(const std::string &body) {
    const std::optional<json> parsed = object_of(body);
    if (!parsed || parsed->size() < 2)
        return std::nullopt;
    std::vector<std::string> names;
    for (const auto &[name, value] : parsed->items())
        names.push_back(name);
    json reversed = json::object();
    for (auto name = names.rbegin(); name != names.rend(); ++name)
        reversed[*name] = (*parsed)[*name];
    return reversed.dump();
}

std::optional<std::string> with_white_space(const std::string &body) {
    const std::optional<json> parsed = object_of(body);
    if (!parsed)
        return std::nullopt;
    return " " + parsed->dump(3) + "\n";
}

std::optional<std::string> with_fraction(const std::string &body) {
    return varied(body, [](json &value) {
        if (!value.is_number_integer())
            return false;
        value = value.get<double>();
        return true;
    });
}

std::optional<std::string> with_null_member(const std::string &body) {
    std::optional<json> parsed = object_of(body);
    if (!parsed)
        return std::nullopt;
    (*parsed)["idem_http_test"] = nullptr;
    return parsed->dump();
}

std::optional<std::string> with_other_array_order(const std::string &body) {
    return varied(body, [](json &value) {
        if (!value.is_array() || value.size() < 2 || value.front() == value.back())
            return false;
        std::reverse(value.begin(), value.end());
        return true;
    });
}

} // namespace idem::cli::http_test
