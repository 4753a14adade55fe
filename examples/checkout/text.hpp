// The words of the pages, in two languages: pages/strings.json, a line each.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace checkout {

enum class Language { en, zh };
const char *name(Language language);

class Texts {
  public:
    // Throws std::runtime_error for a file that is not there or not right.
    explicit Texts(const std::string &file);

    // Not escaped. The key in brackets when there is no such text.
    std::string operator()(Language language, const std::string &key) const;
    // All texts whose keys begin with `prefix`, as a JSON object, for scripts.
    std::string json(Language language, const std::string &prefix) const;

  private:
    std::map<std::string, std::vector<std::string>> texts_;
};

} // namespace checkout
