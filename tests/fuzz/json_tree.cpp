#include "json_tree.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace idem::fuzz {

namespace {

constexpr std::size_t kDeepest = 200;
constexpr long kLargestExponent = 300;

bool all_digits(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Takes a trailing exponent off the text.
std::optional<long> take_exponent(std::string_view &text) {
    const auto at = text.find_first_of("eE");
    if (at == std::string_view::npos)
        return 0;
    std::string_view digits = text.substr(at + 1);
    if (!digits.empty() && digits.front() == '+')
        digits.remove_prefix(1);
    text = text.substr(0, at);
    long exponent = 0;
    const auto end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, exponent);
    if (error != std::errc{} || stopped != end)
        return std::nullopt;
    return exponent;
}

// Builds the tree from the parser's events.
class Builder : public nlohmann::json_sax<nlohmann::json> {
  public:
    std::optional<Json> take() { return usable_ ? std::optional(std::move(root_)) : std::nullopt; }

    bool null() override { return add({}); }
    bool boolean(bool value) override {
        Json made;
        made.kind = Json::Kind::boolean;
        made.boolean = value;
        return add(std::move(made));
    }
    bool number_integer(number_integer_t value) override { return add_number(std::to_string(value)); }
    bool number_unsigned(number_unsigned_t value) override { return add_number(std::to_string(value)); }
    bool number_float(number_float_t, const string_t &text) override { return add_number(text); }
    bool string(string_t &value) override {
        Json made;
        made.kind = Json::Kind::string;
        made.string = value;
        return add(std::move(made));
    }
    bool binary(binary_t &) override { return false; }
    bool start_object(std::size_t) override { return open(Json::Kind::object); }
    bool end_object() override { return close(); }
    bool start_array(std::size_t) override { return open(Json::Kind::array); }
    bool end_array() override { return close(); }
    bool key(string_t &name) override {
        name_ = name;
        return true;
    }
    bool parse_error(std::size_t, const std::string &, const nlohmann::detail::exception &) override { return usable_ = false; }

  private:
    Json *place() {
        if (open_.empty())
            return &root_;
        if (open_.back()->kind == Json::Kind::object)
            return &(open_.back()->members[name_] = Json{});
        return &open_.back()->elements.emplace_back();
    }
    bool add(Json value) {
        *place() = std::move(value);
        return true;
    }
    bool add_number(const std::string &text) {
        auto number = decimal_of(text);
        if (!number || std::labs(number->exponent) > kLargestExponent)
            return usable_ = false;
        Json made;
        made.kind = Json::Kind::number;
        made.number = std::move(*number);
        return add(std::move(made));
    }
    // The place stays where it is while it is open: its parent gets no other element meanwhile.
    bool open(Json::Kind kind) {
        if (open_.size() == kDeepest)
            return usable_ = false;
        Json *opened = place();
        opened->kind = kind;
        open_.push_back(opened);
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    Json root_;
    std::vector<Json *> open_;
    std::string name_;
    bool usable_ = true;
};

} // namespace

std::optional<Decimal> decimal_of(std::string_view text) {
    Decimal number;
    number.negative = !text.empty() && text.front() == '-';
    if (number.negative)
        text.remove_prefix(1);
    const auto exponent = take_exponent(text);
    const auto point = std::min(text.find('.'), text.size());
    const std::string whole(text.substr(0, point)), fraction(text.substr(std::min(point + 1, text.size())));
    number.digits = whole + fraction;
    if (!exponent || number.digits.empty() || !all_digits(number.digits))
        return std::nullopt;
    number.exponent = *exponent + static_cast<long>(whole.size());
    const auto first = number.digits.find_first_not_of('0');
    if (first == std::string::npos)
        return Decimal{};
    number.digits.erase(number.digits.find_last_not_of('0') + 1);
    number.digits.erase(0, first);
    number.exponent -= static_cast<long>(first);
    return number;
}

std::optional<Json> parse_json(std::string_view text) {
    Builder builder;
    const bool parsed = nlohmann::json::sax_parse(text, &builder);
    return parsed ? builder.take() : std::nullopt;
}

} // namespace idem::fuzz
