// The canonical form of a JSON value, the text that idem_fingerprint hashes (algorithm version 1).
//
// UTF-8, no white space; object members in the order in which they are fed (jsonb's: by length of the name in bytes, then
// bytewise; each name once); array elements in their order; numbers in plain decimal notation without leading or trailing
// zeros, sign only when negative, zero as 0; strings quoted, with `"` and `\` escaped by a backslash and control characters as
// \u00xx. Locale and settings play no part.
//
// The value is fed as events, in document order; nesting is the caller's to balance. Each event appends its piece of the form
// to `out`, which the caller may hash and empty at any time: the whole form is never needed at once.
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

// Number `decimal` as the canonical form writes it. Throws std::invalid_argument for anything but a plain decimal.
std::string canonical_number(std::string_view decimal);

} // namespace idem::core
