// The canonical form of JSON is JSON of the same value, is its own canonical form, is one for all orders of members, white
// space and ways to write a number, and is another for another value. Fed in pieces it is the same as in one.
#include "core/canonical_json.hpp"

#include "fuzz.hpp"
#include "json_tree.hpp"

#include <stdexcept>

namespace {

using namespace idem;
using fuzz::Decimal;
using fuzz::Input;
using fuzz::Json;

// A way to write a decimal without exponent, with as many needless zeros as given.
std::string written_out(const Decimal &number, std::size_t zeros_before, std::size_t zeros_after) {
    std::string whole, fraction = number.digits;
    if (number.exponent <= 0)
        fraction.insert(0, static_cast<std::size_t>(-number.exponent), '0');
    else {
        fraction.resize(std::max(fraction.size(), static_cast<std::size_t>(number.exponent)), '0');
        whole = fraction.substr(0, static_cast<std::size_t>(number.exponent));
        fraction.erase(0, whole.size());
    }
    whole.insert(0, zeros_before + (whole.empty() ? 1 : 0), '0');
    fraction.append(zeros_after, '0');
    return (number.negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction);
}

// Feeds a value as the server does: members by length of name, then bytewise. What is fed, apart from the value, is up to
// `zeros`; whether the form is put together from pieces, up to `pieces`.
class Feeder {
  public:
    Feeder(Input zeros, bool pieces) : zeros_(zeros), pieces_(pieces) {}

    std::string form_of(const Json &value) {
        feed(value);
        drain(true);
        return whole_;
    }

  private:
    void feed(const Json &value) {
        switch (value.kind) {
        case Json::Kind::null:
            form_.null(out_);
            break;
        case Json::Kind::boolean:
            form_.boolean(out_, value.boolean);
            break;
        case Json::Kind::number: {
            const std::size_t before = zeros_.below(3), after = zeros_.below(3);
            form_.number(out_, written_out(value.number, before, after));
            break;
        }
        case Json::Kind::string:
            form_.string(out_, value.string);
            break;
        case Json::Kind::array:
            form_.begin_array(out_);
            for (const auto &element : value.elements)
                feed(element);
            form_.end_array(out_);
            break;
        case Json::Kind::object:
            feed_members(value);
            break;
        }
        drain(pieces_);
    }
    void feed_members(const Json &value) {
        std::vector<const std::pair<const std::string, Json> *> members;
        for (const auto &member : value.members)
            members.push_back(&member);
        std::stable_sort(members.begin(), members.end(),
                         [](const auto *left, const auto *right) { return left->first.size() < right->first.size(); });
        form_.begin_object(out_);
        for (const auto *member : members) {
            form_.name(out_, member->first);
            drain(pieces_);
            feed(member->second);
        }
        form_.end_object(out_);
    }
    void drain(bool now) {
        if (now) {
            whole_ += out_;
            out_.clear();
        }
    }

    core::CanonicalJson form_;
    Input zeros_;
    bool pieces_;
    std::string out_, whole_;
};

std::string form_of(const Json &value, Input zeros = Input({}), bool pieces = false) {
    return Feeder(zeros, pieces).form_of(value);
}

// A JSON text of the value, its members in another order, with white space, numbers with exponents and characters escaped
// wherever `choices` says so.
class Writer {
  public:
    explicit Writer(Input choices) : choices_(choices) {}

    std::string text_of(const Json &value) {
        space();
        write(value);
        space();
        return out_;
    }

  private:
    void space() { out_.append(choices_.below(3), " \t\n\r"[choices_.below(4)]); }
    void write(const Json &value) {
        switch (value.kind) {
        case Json::Kind::null:
            out_ += "null";
            break;
        case Json::Kind::boolean:
            out_ += value.boolean ? "true" : "false";
            break;
        case Json::Kind::number:
            write(value.number);
            break;
        case Json::Kind::string:
            write(value.string);
            break;
        case Json::Kind::array:
            write_list('[', value.elements, ']', [&](const Json &element) { write(element); });
            break;
        case Json::Kind::object:
            write_members(value);
            break;
        }
    }
    void write(const Decimal &number) {
        const long shift = static_cast<long>(choices_.below(41)) - 20;
        Decimal shifted = number;
        shifted.exponent -= number.digits.empty() ? 0 : shift;
        out_ += written_out(shifted, 0, choices_.below(3));
        out_ += (choices_.flag() ? "e" : "E") + std::to_string(shift);
    }
    void write(const std::string &text) {
        static constexpr char kHex[] = "0123456789abcdefABCDEF";
        out_ += '"';
        for (const char c : text) {
            const auto byte = static_cast<unsigned char>(c);
            const std::size_t upper = choices_.flag() ? 6 : 0;
            if (byte < 0x20 || c == '"' || c == '\\' || (byte < 0x80 && choices_.flag())) {
                const auto digit = [&](unsigned value) { return kHex[value < 10 ? value : value + upper]; };
                out_.append("\\u00").append(1, digit(byte >> 4)).append(1, digit(byte & 15));
            } else {
                out_ += c;
            }
        }
        out_ += '"';
    }
    void write_members(const Json &value) {
        std::vector<const std::pair<const std::string, Json> *> members;
        for (const auto &member : value.members)
            members.insert(members.begin() + static_cast<std::ptrdiff_t>(choices_.below(members.size() + 1)), &member);
        write_list('{', members, '}', [&](const auto *member) {
            write(member->first);
            space();
            out_ += ':';
            space();
            write(member->second);
        });
    }
    template <typename List, typename Write> void write_list(char open, const List &list, char close, Write &&write_one) {
        out_ += open;
        bool first = true;
        for (const auto &one : list) {
            out_ += first ? "" : ",";
            first = false;
            space();
            write_one(one);
            space();
        }
        out_ += close;
    }

    Input choices_;
    std::string out_;
};

void check_value(const Json &value, Input choices) {
    const std::string form = form_of(value);
    const auto parsed = fuzz::parse_json(form);
    REQUIRE(parsed && *parsed == value);
    REQUIRE(form_of(*parsed) == form);
    REQUIRE(form_of(value, choices, true) == form);

    const std::string otherwise = Writer(choices).text_of(value);
    const auto rewritten = fuzz::parse_json(otherwise);
    REQUIRE(rewritten && form_of(*rewritten) == form);
}

std::optional<std::string> canonical(std::string_view text) {
    try {
        return core::canonical_number(text);
    } catch (const std::invalid_argument &) {
        return std::nullopt;
    }
}

void check_numbers(std::string_view left, std::string_view right) {
    const auto left_form = canonical(left), right_form = canonical(right);
    for (const auto &[text, form] : {std::pair(left, left_form), std::pair(right, right_form)}) {
        const auto number = fuzz::decimal_of(text);
        REQUIRE(form.has_value() == (number && text.find_first_of("eE") == std::string_view::npos));
        REQUIRE(!form || (fuzz::decimal_of(*form) == number && canonical(*form) == form));
    }
    REQUIRE(!left_form || !right_form || (*left_form == *right_form) == (fuzz::decimal_of(left) == fuzz::decimal_of(right)));
}

// A value of any strings, UTF-8 or not, put together from the input itself.
Json value_from(Input &input, int depth) {
    Json value;
    value.kind = static_cast<Json::Kind>(input.below(depth > 0 ? 6 : 4));
    const std::size_t size = input.below(5);
    switch (value.kind) {
    case Json::Kind::boolean:
        value.boolean = input.flag();
        break;
    case Json::Kind::number:
        value.number = fuzz::decimal_of(std::to_string(input.number<std::int32_t>()) + "e" + std::to_string(size)).value();
        break;
    case Json::Kind::string:
        value.string = input.text(20);
        break;
    case Json::Kind::array:
        for (std::size_t i = 0; i < size; i++)
            value.elements.push_back(value_from(input, depth - 1));
        break;
    case Json::Kind::object:
        for (std::size_t i = 0; i < size; i++) {
            const std::string name(input.text(4));
            value.members[name] = value_from(input, depth - 1);
        }
        break;
    default:
        break;
    }
    return value;
}

} // namespace

// The first byte: 'n' for numbers, 'v' for values of raw bytes, anything else for JSON texts.
FUZZ_TARGET(input) {
    const char kind = static_cast<char>(input.number<std::uint8_t>());
    if (kind == 'n') {
        const std::string_view left = input.until('\n');
        return check_numbers(left, input.until('\n'));
    }
    if (kind == 'v') {
        const Json left = value_from(input, 4), right = value_from(input, 4);
        REQUIRE((form_of(left) == form_of(right)) == (left == right));
        REQUIRE(form_of(left, input, true) == form_of(left));
        return;
    }
    const auto left = fuzz::parse_json(input.until('\0')), right = fuzz::parse_json(input.until('\0'));
    if (left)
        check_value(*left, input);
    if (left && right)
        REQUIRE((form_of(*left) == form_of(*right)) == (*left == *right));
}
