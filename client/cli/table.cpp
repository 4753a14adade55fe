#include "table.hpp"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "exit_code.hpp"
#include "usage.hpp"

namespace idem::cli {

namespace {

using json = nlohmann::ordered_json;

struct cell {
    std::string text;
    bool right = false;
};

cell of_value(const json &value) {
    if (value.is_null())
        return {};
    if (value.is_string())
        return {printable(value.get_ref<const std::string &>())};
    if (value.is_boolean())
        return {value.get<bool>() ? "yes" : "no"};
    return {printable(value.dump()), value.is_number()};
}

/// Code points, as an approximation of columns.
std::size_t width(const std::string &text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void append_line(std::string &out, const std::vector<cell> &cells, const std::vector<std::size_t> &widths) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::string padding(widths[i] - width(cells[i].text), ' ');
        line += (i ? "  " : "") + (cells[i].right ? padding + cells[i].text : cells[i].text + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
}

} // namespace

std::string printable(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string shown;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        // U+0080 to U+009F are control characters too: C2 80 to C2 9F.
        const bool high_control = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
        if (c == '\n')
            shown += "\\n";
        else if (c == '\t')
            shown += "\\t";
        else if (c < 0x20 || c == 0x7F)
            shown += {'\\', 'x', digits[c >> 4], digits[c & 15]};
        else if (high_control) {
            const auto next = static_cast<unsigned char>(text[++i]);
            shown += {'\\', 'x', digits[next >> 4], digits[next & 15]};
        } else
            shown += static_cast<char>(c);
    }
    return shown;
}

std::string as_table(const std::vector<std::string> &objects, const std::vector<std::string> &columns) {
    std::vector<cell> heading;
    for (const std::string &column : columns)
        heading.push_back({column});
    std::vector<std::vector<cell>> lines;
    for (const std::string &object : objects) {
        const json content = json::parse(object);
        if (lines.empty()) {
            heading.clear();
            for (const auto &[name, value] : content.items())
                heading.push_back({name});
        }
        lines.emplace_back();
        for (const auto &[name, value] : content.items())
            lines.back().push_back(of_value(value));
    }
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < heading.size(); ++i) {
        widths.push_back(width(heading[i].text));
        for (const std::vector<cell> &line : lines) {
            widths[i] = std::max(widths[i], width(line[i].text));
            heading[i].right = heading[i].right || line[i].right;
        }
    }
    std::string out;
    append_line(out, heading, widths);
    std::vector<cell> rule;
    for (std::size_t size : widths)
        rule.push_back({std::string(size, '-')});
    append_line(out, rule, widths);
    for (const std::vector<cell> &line : lines)
        append_line(out, line, widths);
    return out;
}

std::string as_json(const std::vector<std::string> &objects) {
    std::string out = "[";
    for (std::size_t i = 0; i < objects.size(); ++i)
        out += (i ? ",\n " : "") + objects[i];
    return out + "]\n";
}

void print(const std::string &text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        throw exit_error(kOutput, "could not write the result to standard output");
}

} // namespace idem::cli
