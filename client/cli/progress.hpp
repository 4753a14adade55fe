// A progress bar from the notices of a sweep.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace idem::cli {

/// The progress from 0 to 1 of a notice such as "… 30 of 120 blocks …"; nothing for other notices.
std::optional<double> part_done(std::string_view notice);

/// "[######..............]  30 %  sweeping …", not wider than `columns`.
std::string bar_text(double part, std::string_view notice, std::size_t columns);

/// On a terminal one line of stderr, which is redrawn; elsewhere a line for each notice; nothing when quiet.
class progress_bar {
  public:
    explicit progress_bar(bool quiet);
    ~progress_bar() { clear(); }

    void note(const std::string &notice);
    void clear() noexcept;

  private:
    bool quiet_, terminal_, drawn_ = false;
};

} // namespace idem::cli
