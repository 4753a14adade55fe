#include "core/canonical_json.hpp"

#include <algorithm>
#include <stdexcept>

namespace idem::core {

namespace {

bool all_digits(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void quote(std::string &out, std::string_view text) {
    static constexpr char kHex[] = "0123456789abcdef";
    out += '"';
    for (char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20)
            out.append("\\u00").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
        else {
            if (c == '"' || c == '\\')
                out += '\\';
            out += c;
        }
    }
    out += '"';
}

} // namespace

std::string canonical_number(std::string_view decimal) {
    const bool negative = !decimal.empty() && decimal.front() == '-';
    if (negative)
        decimal.remove_prefix(1);
    const auto point = decimal.find('.');
    std::string_view whole = decimal.substr(0, point);
    std::string_view fraction = point == std::string_view::npos ? std::string_view{} : decimal.substr(point + 1);
    if (whole.size() + fraction.size() == 0 || !all_digits(whole) || !all_digits(fraction))
        throw std::invalid_argument("number is not a plain decimal");
    while (!whole.empty() && whole.front() == '0')
        whole.remove_prefix(1);
    while (!fraction.empty() && fraction.back() == '0')
        fraction.remove_suffix(1);
    if (whole.empty() && fraction.empty())
        return "0";
    std::string canonical(negative ? "-" : "");
    canonical += whole.empty() ? std::string_view("0") : whole;
    if (!fraction.empty())
        canonical.append(".").append(fraction);
    return canonical;
}

void CanonicalJson::separate(std::string &out) {
    if (needs_comma_)
        out += ',';
    needs_comma_ = true;
}

void CanonicalJson::open(std::string &out, char bracket) {
    separate(out);
    out += bracket;
    needs_comma_ = false;
}

void CanonicalJson::close(std::string &out, char bracket) {
    out += bracket;
    needs_comma_ = true;
}

void CanonicalJson::literal(std::string &out, std::string_view text) {
    separate(out);
    out += text;
}

void CanonicalJson::name(std::string &out, std::string_view text) {
    separate(out);
    quote(out, text);
    out += ':';
    needs_comma_ = false;
}

void CanonicalJson::string(std::string &out, std::string_view text) {
    separate(out);
    quote(out, text);
}

void CanonicalJson::number(std::string &out, std::string_view decimal) { literal(out, canonical_number(decimal)); }

} // namespace idem::core
