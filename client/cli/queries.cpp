#include "queries.hpp"

#include <idem/target.hpp>

#include <nlohmann/json.hpp>

#include "table.hpp"

namespace idem::cli {

void too_old(const error &problem) {
    throw not_installed("42883", std::string(problem.what()) + "\nHINT:  The extension \"idem\" in this database is too old "
                                                               "for this; ALTER EXTENSION idem UPDATE may help; the portable "
                                                               "edition is installed again.");
}

std::vector<std::string> query(context &c, const detail::statement &what, detail::parameters values, subject about) {
    const bool names_only_ours = values.empty(); // with parameters, the missing relation may be the user's
    try {
        return ask(c, [&] {
            std::vector<std::string> firsts;
            for (const detail::record &each : detail::call(target(c.db), {&what, std::move(values), std::move(about)}))
                firsts.push_back(each.at(0).value_or(""));
            return firsts;
        });
    } catch (const bad_input &problem) {
        if (problem.sqlstate() == "42P01" && names_only_ours)
            too_old(problem);
        throw;
    }
}

void show(const context &c, const std::vector<std::string> &objects, const std::vector<std::string> &columns) {
    print(c.given.json ? as_json(objects) : as_table(objects, columns));
}

void show_outcome(const context &c, const std::string &object) {
    if (c.given.json)
        return print(object + "\n");
    const auto content = nlohmann::ordered_json::parse(object);
    std::string line;
    for (const auto &[name, value] : content.items())
        if (!value.is_null())
            line += (line.empty() ? "" : " ") + printable(value.is_string() ? value.get<std::string>() : value.dump());
    print(line + "\n");
}

void show_word(const context &c, const std::string &outcome) { show_outcome(c, "{\"outcome\": \"" + outcome + "\"}"); }

} // namespace idem::cli
