// The canonical form of a JSON value, the text that idem_fingerprint hashes (algorithm version 1).
//
// UTF-8 without white space. Object members keep the order in which they are fed: jsonb's, by length of the name in bytes, then
// bytewise, each name once. Array elements keep their order. Numbers are in plain decimal notation without leading or trailing
// zeros; only negative numbers have a sign, and zero is 0. Strings are quoted, with `"` and `\` escaped by a backslash and
// control characters as \u00xx. Locale and settings have no effect.
//
// The caller feeds the value as events in document order, and balances the nesting. Each event appends its part of the form to
// `out`. The caller may hash and empty `out` at any time, so the whole form is never needed at once.
#pragma once

#include <string>
#include <string_view>

namespace idem::core {

inline constexpr unsigned char kFingerprintVersion = 1;

class CanonicalJson {
  public:
    void begin_object(std::string &out) { open(out, '{'); }
    void end_object(std::string &out) { close(out, '}'); }
    void begin_array(std::string &out) { open(out, '['); }
    void end_array(std::string &out) { close(out, ']'); }
    void name(std::string &out, std::string_view text);
    void string(std::string &out, std::string_view text);
    void number(std::string &out, std::string_view decimal); // digits, optional sign and fraction; no exponent
    void boolean(std::string &out, bool value) { literal(out, value ? "true" : "false"); }
    void null(std::string &out) { literal(out, "null"); }

  private:
    void open(std::string &out, char bracket);
    void close(std::string &out, char bracket);
    void literal(std::string &out, std::string_view text);
    void separate(std::string &out);

    bool needs_comma_ = false;
};

// Returns `decimal` in the canonical form. Throws std::invalid_argument for anything but a plain decimal.
std::string canonical_number(std::string_view decimal);

} // namespace idem::core
