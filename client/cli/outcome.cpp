#include "outcome.hpp"

#include <array>
#include <ctime>
#include <stdexcept>

#include <unistd.h>

#include <nlohmann/json.hpp>

namespace idem::cli {

namespace {

using json = nlohmann::ordered_json;

constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

json of_output(const captured &output) {
    if (!output.complete())
        return {{"omitted_bytes", output.size}};
    if (is_storable_text(output.bytes))
        return output.bytes;
    return {{"base64", base64_encode(output.bytes)}};
}

stored_output to_output(const json &stored) {
    if (stored.is_string())
        return {stored.get<std::string>(), std::nullopt};
    if (stored.contains("base64"))
        return {base64_decode(stored.at("base64").get_ref<const std::string &>()), std::nullopt};
    return {{}, stored.at("omitted_bytes").get<std::uint64_t>()};
}

std::string host_name() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return is_storable_text(name.data()) ? name.data() : "";
}

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

} // namespace

bool is_storable_text(std::string_view bytes) {
    for (std::size_t i = 0; i < bytes.size();) {
        const auto first = static_cast<unsigned char>(bytes[i++]);
        if (first == 0)
            return false;
        if (first < 0x80)
            continue;
        const int more = first >= 0xC2 && first < 0xE0   ? 1
                         : first >= 0xE0 && first < 0xF0 ? 2
                         : first >= 0xF0 && first < 0xF5 ? 3
                                                         : 0;
        if (more == 0 || i + static_cast<std::size_t>(more) > bytes.size())
            return false;
        unsigned code = first & (0x3Fu >> more);
        for (int k = 0; k < more; ++k) {
            const auto next = static_cast<unsigned char>(bytes[i++]);
            if ((next & 0xC0) != 0x80)
                return false;
            code = code << 6 | (next & 0x3Fu);
        }
        const bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
        if (overlong || (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF)
            return false;
    }
    return true;
}

std::string base64_encode(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        unsigned group = 0;
        for (std::size_t k = 0; k < 3; ++k)
            group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        for (std::size_t k = 0; k < 4; ++k)
            text += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63];
    }
    return text;
}

std::string base64_decode(std::string_view text) {
    std::string bytes;
    unsigned group = 0;
    int bits = 0;
    for (char c : text.substr(0, text.find('='))) {
        const auto digit = std::string_view(kDigits, 64).find(c);
        if (digit == std::string_view::npos)
            throw std::invalid_argument("not base64");
        group = group << 6 | static_cast<unsigned>(digit);
        if (bits += 6; bits >= 8)
            bytes += static_cast<char>(group >> (bits -= 8) & 255);
    }
    return bytes;
}

response to_response(const child_end &end, bool with_output) {
    json stored{{"idem_run", 1}, {"exit_code", end.exit_code()}};
    if (end.what == child_end::how::signalled)
        stored["signal"] = end.value;
    stored["host"] = host_name();
    stored["finished_at"] = utc_now();
    if (with_output) {
        stored["stdout"] = of_output(end.out);
        stored["stderr"] = of_output(end.err);
    }
    return {end.exit_code(), stored.dump()};
}

std::optional<stored_run> from_answer(const answer &stored) {
    if (!stored.status_code || *stored.status_code < 0 || *stored.status_code > 255)
        return std::nullopt;
    stored_run known;
    known.exit_code = *stored.status_code;
    known.omitted = stored.response_omitted;
    if (stored.response_omitted)
        return known;
    if (!stored.response)
        return std::nullopt;
    try {
        const json content = json::parse(*stored.response);
        if (!content.is_object() || content.value("idem_run", 0) != 1 || content.at("exit_code") != known.exit_code)
            return std::nullopt;
        known.where = content.value("host", "");
        known.when = content.value("finished_at", "");
        if (content.contains("stdout"))
            known.out = to_output(content["stdout"]);
        if (content.contains("stderr"))
            known.err = to_output(content["stderr"]);
        return known;
    } catch (const json::exception &) {
        return std::nullopt;
    } catch (const std::invalid_argument &) {
        return std::nullopt;
    }
}

} // namespace idem::cli
