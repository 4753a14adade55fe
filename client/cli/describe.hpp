// The man page and the completion scripts, generated from the option tree.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace idem::cli {

/// troff with the man macros; the section is 1.
std::string man_page(const CLI::App &tree);
/// `shell` is bash or zsh.
std::string completion_script(const CLI::App &tree, const std::string &shell);

} // namespace idem::cli
