#include "core/http_key.hpp"

#include "core/trimmed.hpp"

#include <algorithm>

namespace idem::core {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_letter(char c) { return is_lower(c) || (c >= 'A' && c <= 'Z'); }
bool is_printable(char c) { return c >= 0x20 && c <= 0x7e; }
bool is_lower_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }
bool is_one_of(char c, std::string_view set) { return set.find(c) != set.npos; }

// The grammar of RFC 9651, section 4.2, as far as an item needs it. Every function consumes the text that it accepts, and
// returns false when the field is malformed.
class Reader {
  public:
    explicit Reader(std::string_view rest) : rest_(rest) {}

    bool at_end() const { return rest_.empty(); }
    bool take(char c) {
        if (rest_.empty() || rest_.front() != c)
            return false;
        rest_.remove_prefix(1);
        return true;
    }

    // REQUIRES: the opening quote is next. `key` may be nullptr.
    bool string(HttpKey *key) {
        for (rest_.remove_prefix(1); !at_end();) {
            char c = next();
            if (c == '"')
                return true;
            if (!is_printable(c))
                return false;
            if (c == '\\') {
                if (at_end())
                    return false;
                c = next();
                if (c != '"' && c != '\\')
                    return false;
            }
            if (key != nullptr) {
                if (key->size == kMaxHttpKeyBytes)
                    return false;
                key->bytes[key->size++] = c;
            }
        }
        return false;
    }

    bool parameters() {
        while (take(';')) {
            while (take(' ')) {
            }
            if (at_end() || (!is_lower(rest_.front()) && rest_.front() != '*'))
                return false;
            skip([](char c) { return is_lower(c) || is_digit(c) || is_one_of(c, "_-.*"); });
            if (take('=') && !bare_item())
                return false;
        }
        return true;
    }

  private:
    char next() {
        const char c = rest_.front();
        rest_.remove_prefix(1);
        return c;
    }
    template <typename Accepts> std::size_t skip(Accepts accepts) {
        std::size_t count = 0;
        while (count < rest_.size() && accepts(rest_[count]))
            count++;
        rest_.remove_prefix(count);
        return count;
    }

    bool bare_item() {
        if (at_end())
            return false;
        const char first = rest_.front();
        if (first == '"')
            return string(nullptr);
        if (first == '-' || is_digit(first))
            return number(true);
        if (is_letter(first) || first == '*') {
            skip([](char c) { return is_letter(c) || is_digit(c) || is_one_of(c, ":/!#$%&'*+-.^_`|~"); });
            return true;
        }
        next();
        switch (first) {
        case ':': // a byte sequence
            skip([](char c) { return is_letter(c) || is_digit(c) || is_one_of(c, "+/="); });
            return take(':');
        case '?': // a boolean
            return take('0') || take('1');
        case '@': // a date
            return number(false);
        case '%': // a display string
            return !at_end() && rest_.front() == '"' && display_string();
        default:
            return false;
        }
    }

    bool number(bool may_have_fraction) {
        take('-');
        const std::size_t whole = skip(is_digit);
        if (whole == 0 || whole > 15)
            return false;
        if (!may_have_fraction || !take('.'))
            return true;
        const std::size_t fraction = skip(is_digit);
        return whole <= 12 && fraction >= 1 && fraction <= 3;
    }

    bool display_string() {
        for (next(); !at_end();) {
            const char c = next();
            if (c == '"')
                return true;
            if (!is_printable(c))
                return false;
            if (c == '%' && !(take_hex() && take_hex()))
                return false;
        }
        return false;
    }
    bool take_hex() { return !at_end() && is_lower_hex(next()); }

    std::string_view rest_;
};

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
bool is_bare(char c) { return is_printable(c) && !is_one_of(c, " \","); }

template <typename Accepts> bool copy_key(std::string_view field, Accepts accepts, HttpKey *key) {
    if (field.size() > kMaxHttpKeyBytes || !std::all_of(field.begin(), field.end(), accepts))
        return false;
    std::copy(field.begin(), field.end(), key->bytes);
    key->size = field.size();
    return true;
}

bool read_string(std::string_view field, HttpKey *key) {
    Reader reader(field);
    return reader.string(key) && key->size > 0 && reader.parameters() && reader.at_end();
}

} // namespace

bool parse_http_key(std::string_view field, HttpKeySyntax syntax, HttpKey *key) noexcept {
    field = trimmed(field, " \t");
    key->size = 0;
    if (field.empty())
        return false;
    if (syntax == HttpKeySyntax::opaque)
        return copy_key(
            field, [](char c) { return !is_control(c); }, key);
    if (field.front() == '"')
        return read_string(field, key);
    return syntax == HttpKeySyntax::string_or_bare && copy_key(field, is_bare, key);
}

} // namespace idem::core
