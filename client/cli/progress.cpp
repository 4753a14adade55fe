#include "progress.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

#include "exit_code.hpp"
#include "table.hpp"

namespace idem::cli {

namespace {

std::size_t terminal_width() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

} // namespace

std::optional<double> part_done(std::string_view notice) {
    static constexpr std::string_view of = " of ";
    for (std::size_t at = notice.find(of); at != std::string_view::npos; at = notice.find(of, at + 1)) {
        std::size_t begin = at;
        while (begin > 0 && is_digit(notice[begin - 1]))
            --begin;
        const std::size_t after = at + of.size();
        if (begin == at || after >= notice.size() || !is_digit(notice[after]))
            continue;
        const double done = std::strtod(std::string(notice.substr(begin, at - begin)).c_str(), nullptr);
        const double all = std::strtod(std::string(notice.substr(after)).c_str(), nullptr);
        return all > 0 ? std::min(done / all, 1.0) : 1.0;
    }
    return std::nullopt;
}

std::string bar_text(double part, std::string_view notice, std::size_t columns) {
    constexpr std::size_t kBar = 30;
    const auto full = static_cast<std::size_t>(part * kBar);
    char percent[16];
    std::snprintf(percent, sizeof percent, "] %3d %%  ", static_cast<int>(part * 100));
    std::string text = "[" + std::string(full, '#') + std::string(kBar - full, '.') + percent + std::string(notice);
    return text.substr(0, columns);
}

progress_bar::progress_bar(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO)) {}

void progress_bar::note(const std::string &notice) {
    if (quiet_)
        return;
    const std::optional<double> part = part_done(notice);
    if (!terminal_ || !part) {
        clear();
        complain(printable(notice));
        return;
    }
    const std::string text = "\r" + bar_text(*part, printable(notice), terminal_width() - 1) + "\x1b[K";
    std::fwrite(text.data(), 1, text.size(), stderr);
    drawn_ = true;
}

void progress_bar::clear() noexcept {
    if (drawn_)
        std::fputs("\r\x1b[K", stderr);
    drawn_ = false;
}

} // namespace idem::cli
