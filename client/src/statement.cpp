#include <idem/statement.hpp>

#include <charconv>
#include <unistd.h>

#include "bounded.hpp"
#include "session.hpp"

namespace idem::detail {

parameter interval_text(const std::optional<std::chrono::milliseconds> &duration) {
    if (!duration)
        return std::nullopt;
    return std::to_string(duration->count()) + " milliseconds";
}

parameter wait_text(const wait_limit &wait) { return interval_text(wait.bound.value_or(kLongestDuration)); }

std::string array_text(const std::vector<parameter> &elements) {
    std::string text = "{";
    for (const parameter &element : elements) {
        if (text.size() > 1)
            text += ',';
        if (!element) {
            text += "NULL";
            continue;
        }
        text += '"';
        for (char c : *element) {
            if (c == '"' || c == '\\')
                text += '\\';
            text += c;
        }
        text += '"';
    }
    return text + "}";
}

std::int64_t to_integer(const parameter &answer) {
    if (!answer)
        throw error("XX000", "the server answered NULL where a number was expected");
    const char *const last = answer->data() + answer->size();
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(answer->data(), last, value);
    if (problem != std::errc() || end != last)
        throw error("XX000", "the server answered \"" + *answer + "\" where a number was expected");
    return value;
}

void reject_unsendable(const command &command) {
    // The limit of a message is 1 GB - 1; 64 kB are left for lengths, names and the statement's text.
    constexpr std::size_t limit = (std::size_t{1} << 30) - (std::size_t{1} << 16);
    std::size_t total = 0;
    for (const parameter &value : command.values)
        if (value && (total += value->size()) > limit)
            throw bad_input("54000", "the parameters together are larger than 1 GB", command.about);
    for (const parameter &value : command.values)
        if (value && value->find('\0') != std::string::npos)
            throw bad_input("22021", "invalid byte sequence for encoding \"UTF8\": 0x00", command.about);
}

std::string make_nonce() {
    static constexpr char digits[] = "0123456789abcdef";
    unsigned char bytes[16];
    // Not std::random_device: where the processor's generator traps into a hypervisor, it costs more than a round trip.
    if (getentropy(bytes, sizeof bytes) != 0)
        throw error("58000", "could not get random numbers from the system");
    std::string nonce;
    nonce.reserve(2 * sizeof bytes);
    for (const unsigned char byte : bytes) {
        nonce += digits[byte >> 4];
        nonce += digits[byte & 15];
    }
    return nonce;
}

} // namespace idem::detail
