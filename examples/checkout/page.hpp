// Pages out of templates. In a template {{name}} is a value, escaped; {{{name}}} is HTML that was made by another template;
// {{t.key}} is a text of strings.json, escaped.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "scheme.hpp"
#include "text.hpp"

namespace checkout {

std::string escape(const std::string &text);
// "€ 25.00"
std::string money(int cents);

// Thread-safe. All of these return HTML.
class Pages {
  public:
    using Values = std::map<std::string, std::string>;

    // Reads the templates. Throws std::runtime_error.
    explicit Pages(const std::string &directory);

    struct Page {
        Language language;
        std::string path; // with its query, for the language switch
        const Scheme *scheme = nullptr;
    };

    std::string overview(const Page &page) const;
    // `content`: what is in the left column. `state`: of this scheme, see state.hpp.
    std::string scheme(const Page &page, const std::string &content, const nlohmann::json &state) const;

    std::string form(const Page &page, const Fields &hidden, const Cart &cart) const;
    std::string message(const Page &page, const Answer &answer) const;
    // Sends the same form once more.
    std::string again(const Page &page, const Submission &submission) const;
    std::string order(const Page &page, const OrderView &order, const std::string &next) const;
    // What changes of it: the script fetches it anew.
    std::string order_state(const Page &page, const OrderView &order) const;
    std::string panel(const Page &page, const nlohmann::json &state) const;

    // A style sheet or a script; empty: there is none.
    std::string file(const std::string &name) const;

  private:
    std::string render(const Page &page, const std::string &name, const Values &values) const;
    std::string layout(const Page &page, const std::string &title, const std::string &content) const;
    std::string navigation(const Page &page) const;

    std::map<std::string, std::string> files_;
    Texts texts_;
};

} // namespace checkout
