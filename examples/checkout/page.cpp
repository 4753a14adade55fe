#include "page.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace checkout {
namespace {

using nlohmann::json;

// Templates and the files that browsers ask for.
std::map<std::string, std::string> read_files(const std::string &directory) {
    std::map<std::string, std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator{directory}) {
        std::ifstream in{entry.path(), std::ios::binary};
        std::ostringstream all;
        all << in.rdbuf();
        files[entry.path().filename().string()] = all.str();
    }
    return files;
}

std::string hidden_input(const std::string &name, const std::string &value) {
    return "<input type=\"hidden\" name=\"" + escape(name) + "\" value=\"" + escape(value) + "\">\n";
}

std::string string_of(const json &value) {
    if (value.is_null())
        return "";
    return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string in_language(std::string path, Language language) {
    const auto query = path.find('?');
    return path.substr(0, query) + "?lang=" + name(language);
}

// As many as there is room for.
json newest(const json &list) {
    constexpr std::size_t kLines = 12;
    return json(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(std::min(kLines, list.size())));
}

// Enough of an order's number to tell it from the others.
std::string end_of(const std::string &id) { return id.size() > 6 ? id.substr(id.size() - 6) : id; }

constexpr const char *kPresets[] = {"normal", "slow", "loses", "repeats", "declines", "silent"};

} // namespace

std::string escape(const std::string &text) {
    std::string safe;
    for (const char c : text)
        switch (c) {
        case '&':
            safe += "&amp;";
            break;
        case '<':
            safe += "&lt;";
            break;
        case '>':
            safe += "&gt;";
            break;
        case '"':
            safe += "&quot;";
            break;
        case '\'':
            safe += "&#39;";
            break;
        default:
            safe += c;
        }
    return safe;
}

std::string money(int cents) {
    const std::string rest = std::to_string(cents % 100);
    return "€ " + std::to_string(cents / 100) + "." + (rest.size() < 2 ? "0" : "") + rest;
}

Pages::Pages(const std::string &directory) : files_{read_files(directory)}, texts_{directory + "/strings.json"} {}

std::string Pages::render(const Page &page, const std::string &name, const Values &values) const {
    const auto found = files_.find(name + ".html");
    if (found == files_.end())
        throw std::runtime_error{"there is no template " + name};
    const std::string &text = found->second;

    const auto value_of = [&](const std::string &key) {
        if (key.starts_with("t."))
            return texts_(page.language, key.substr(2));
        const auto value = values.find(key);
        return value == values.end() ? "[" + key + "]" : value->second;
    };
    std::string html;
    for (std::size_t at = 0;;) {
        const auto open = text.find("{{", at);
        html.append(text, at, open - at);
        if (open == std::string::npos)
            return html;
        const bool raw = text.compare(open, 3, "{{{") == 0;
        const auto from = open + (raw ? 3 : 2), to = text.find("}}", from);
        const std::string value = value_of(text.substr(from, to - from));
        html += raw ? value : escape(value);
        at = to + (raw ? 3 : 2);
    }
}

std::string Pages::navigation(const Page &page) const {
    std::string links;
    for (const Scheme *scheme : kSchemes)
        links += render(page, "link",
                        {{"name", scheme->name},
                         {"lang", name(page.language)},
                         {"title", texts_(page.language, std::string{"title."} + scheme->name)},
                         {"current", scheme == page.scheme ? "page" : "false"}});
    return links;
}

std::string Pages::layout(const Page &page, const std::string &title, const std::string &content) const {
    return render(page, "layout",
                  {{"lang", name(page.language)},
                   {"title", title},
                   {"navigation", navigation(page)},
                   {"en", in_language(page.path, Language::en)},
                   {"zh", in_language(page.path, Language::zh)},
                   {"is_en", page.language == Language::en ? "true" : "false"},
                   {"is_zh", page.language == Language::zh ? "true" : "false"},
                   {"content", content}});
}

std::string Pages::overview(const Page &page) const {
    std::string cards;
    for (const Scheme *scheme : kSchemes)
        cards += render(page, "card",
                        {{"name", scheme->name},
                         {"lang", name(page.language)},
                         {"title", texts_(page.language, std::string{"title."} + scheme->name)},
                         {"summary", texts_(page.language, std::string{"summary."} + scheme->name)}});
    return layout(page, texts_(page.language, "overview.title"), render(page, "overview", {{"cards", cards}}));
}

std::string Pages::scheme(const Page &page, const std::string &content, const json &state) const {
    const std::string which = page.scheme->name;
    const std::string title = texts_(page.language, "title." + which);
    return layout(page, title,
                  render(page, "scheme",
                         {{"name", which},
                          {"lang", name(page.language)},
                          {"title", title},
                          {"how", texts_(page.language, "how." + which)},
                          {"try", texts_(page.language, "try." + which)},
                          {"code", page.scheme->code},
                          {"content", content},
                          {"strings", texts_.json(page.language, "js.")},
                          {"messages", texts_.json(page.language, "outcome.")},
                          {"panel", panel(page, state)}}));
}

std::string Pages::form(const Page &page, const Fields &hidden, const Cart &cart) const {
    std::string inputs, options;
    for (const auto &[key, value] : hidden)
        inputs += hidden_input(key, value);
    for (const char *preset : kPresets)
        options += std::string{"<option value=\""} + preset + "\">" +
                   escape(texts_(page.language, std::string{"gateway."} + preset)) + "</option>";
    return render(page, "form",
                  {{"name", page.scheme->name},
                   {"lang", name(page.language)},
                   {"hidden", inputs},
                   {"options", options},
                   {"quantity", std::to_string(cart.quantity)},
                   {"note", cart.note},
                   {"extra", page.scheme == &kKey ? render(page, "form-key", {}) : ""}});
}

std::string Pages::message(const Page &page, const Answer &answer) const {
    const std::string outcome = name(answer.outcome);
    return render(page, "message",
                  {{"outcome", outcome},
                   {"order", answer.order},
                   {"text", texts_(page.language, "outcome." + outcome)},
                   {"said", answer.call.empty() ? "" : answer.call + " → " + answer.said}});
}

std::string Pages::again(const Page &page, const Submission &submission) const {
    std::string inputs;
    for (const auto &[key, value] : submission.fields)
        inputs += hidden_input(key, value);
    return render(page, "again", {{"name", page.scheme->name}, {"lang", name(page.language)}, {"hidden", inputs}});
}

std::string Pages::order_state(const Page &page, const OrderView &order) const {
    const std::string left =
        order.hold_left_ms ? " " + std::to_string((*order.hold_left_ms + 999) / 1000) + " s" : std::string{};
    return render(page, "order-state",
                  {{"status", order.status},
                   {"text", texts_(page.language, "status." + order.status) + left},
                   {"about", texts_(page.language, "status." + order.status + ".about")}});
}

std::string Pages::order(const Page &page, const OrderView &order, const std::string &next) const {
    return render(page, "order",
                  {{"id", order.id},
                   {"name", order.scheme},
                   {"lang", name(page.language)},
                   {"status", order.status},
                   {"quantity", std::to_string(order.quantity)},
                   {"amount", money(order.amount)},
                   {"note", order.note},
                   {"next", next},
                   {"state", order_state(page, order)}});
}

std::string Pages::panel(const Page &page, const json &state) const {
    std::string orders, charges, log;
    const auto status_text = [&](const json &row) {
        return texts_(page.language, "status." + row.at("status").get<std::string>());
    };
    for (const json &row : newest(state.at("orders"))) {
        orders += render(page, "panel-order",
                         {{"order", row.at("id")},
                          {"order_end", end_of(row.at("id"))},
                          {"status", row.at("status")},
                          {"text", status_text(row)},
                          {"quantity", string_of(row.at("quantity"))},
                          {"amount", money(row.at("amount").get<int>())},
                          {"note", row.at("note")}});
    }
    for (const json &row : newest(state.at("charges")))
        charges += render(page, "panel-charge",
                          {{"charge", row.at("id")},
                           {"order", row.at("order")},
                           {"order_end", end_of(row.at("order"))},
                           {"status", row.at("status")},
                           {"text", texts_(page.language, "charge." + row.at("status").get<std::string>())},
                           {"amount", money(row.at("amount").get<int>())},
                           {"requests", string_of(row.at("requests"))},
                           {"callbacks", string_of(row.at("callbacks"))}});
    for (const json &row : newest(state.at("log")))
        log +=
            render(page, "panel-log",
                   {{"call", row.at("call")}, {"answer", row.at("answer")}, {"order", row.at("order")}, {"at", row.at("at")}});
    const json &totals = state.at("totals");
    const int expected = state.at("stock").at("initial").get<int>() - totals.value("units", 0);
    return render(page, "panel",
                  {{"n_orders", string_of(totals.at("orders"))},
                   {"n_charges", string_of(totals.at("charges"))},
                   {"n_booked", string_of(totals.at("booked"))},
                   {"n_stock", string_of(totals.at("stock"))},
                   {"expected", std::to_string(expected)},
                   {"charges_fit", totals.at("charges") <= totals.at("orders") ? "true" : "false"},
                   {"booked_fit", totals.at("booked") <= totals.at("charges") ? "true" : "false"},
                   {"stock_fits", totals.at("stock") == expected ? "true" : "false"},
                   {"orders", orders.empty() ? render(page, "panel-none", {}) : orders},
                   {"charges", charges.empty() ? render(page, "panel-none", {}) : charges},
                   {"log", log}});
}

std::string Pages::file(const std::string &name) const {
    const auto found = files_.find(name);
    return found == files_.end() ? "" : found->second;
}

} // namespace checkout
