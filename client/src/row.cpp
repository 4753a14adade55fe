#include <idem/row.hpp>

#include <charconv>
#include <cmath>

#include <idem/error.hpp>

namespace idem {

namespace {

std::string quoted_text(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string json = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            json += '\\';
            json += c;
        } else if (byte < 0x20) {
            json += "\\u00";
            json += digits[byte >> 4];
            json += digits[byte & 15];
        } else {
            json += c;
        }
    }
    return json + '"';
}

template <typename T> std::string number_text(T value) {
    if (!std::isfinite(value))
        throw bad_input("22023", "a column's value is infinity or NaN, which JSON cannot represent");
    char text[128];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

} // namespace

std::string column_value::quoted(std::string_view text) { return quoted_text(text); }
std::string column_value::number(float value) { return number_text(value); }
std::string column_value::number(double value) { return number_text(value); }
std::string column_value::number(long double value) { return number_text(value); }

row::row(std::initializer_list<column> columns) {
    for (const column &each : columns)
        set(each.name, each.value);
}

row &row::set(std::string_view name, const column_value &value) & {
    json_.pop_back();
    if (json_.size() > 1)
        json_ += ", ";
    json_ += quoted_text(name) + ": " + value.json() + '}';
    return *this;
}

} // namespace idem
