// The canonical form of a JSON value, the text that idem_fingerprint hashes (algorithm version 1).
//
// UTF-8, no white space; object members in the order in which they are fed (jsonb's: by length of the name in bytes, then
// bytewise; each name once); array elements in their order; numbers in plain decimal notation without leading or trailing
// zeros, sign only when negative, zero as 0; strings quoted, with `"` and `\` escaped by a backslash and control characters as
// \u00xx. Locale and settings play no part.
//
// The value is fed as events, in document order; nesting is the caller's to balance.
#pragma once

#include <string>
#include <string_view>

namespace idem::core {

inline constexpr unsigned char kFingerprintVersion = 1;

class CanonicalJson {
  public:
    void begin_object() { open('{'); }
    void end_object() { close('}'); }
    void begin_array() { open('['); }
    void end_array() { close(']'); }
    void name(std::string_view text);
    void string(std::string_view text);
    void number(std::string_view decimal); // digits, optional sign and fraction, as numeric prints it; no exponent
    void boolean(bool value) { literal(value ? "true" : "false"); }
    void null() { literal("null"); }

    const std::string &text() const { return text_; }

  private:
    void open(char bracket);
    void close(char bracket);
    void literal(std::string_view text);
    void separate();
    void quote(std::string_view text);

    std::string text_;
    bool needs_comma_ = false;
};

// Number `decimal` as the canonical form writes it. Throws std::invalid_argument for anything but a plain decimal.
std::string canonical_number(std::string_view decimal);

} // namespace idem::core
