#include "text.hpp"

#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace checkout {

const char *name(Language language) { return language == Language::zh ? "zh" : "en"; }

Texts::Texts(const std::string &file) {
    std::ifstream in{file};
    if (!in)
        throw std::runtime_error{"could not read " + file};
    texts_ = nlohmann::json::parse(in).get<decltype(texts_)>();
    for (const auto &[key, text] : texts_)
        if (text.size() != 2)
            throw std::runtime_error{file + ": \"" + key + "\" is not in two languages"};
}

std::string Texts::operator()(Language language, const std::string &key) const {
    const auto found = texts_.find(key);
    return found == texts_.end() ? "[" + key + "]" : found->second[language == Language::zh];
}

std::string Texts::json(Language language, const std::string &prefix) const {
    nlohmann::json all = nlohmann::json::object();
    for (auto text = texts_.lower_bound(prefix); text != texts_.end() && text->first.starts_with(prefix); ++text)
        all[text->first] = text->second[language == Language::zh];
    return all.dump();
}

} // namespace checkout
