#include "describe.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "table.hpp"

namespace idem::cli {

namespace {

std::vector<const CLI::App *> visible_subcommands(const CLI::App &app) {
    std::vector<const CLI::App *> all;
    for (const CLI::App *each : app.get_subcommands([](const CLI::App *sub) { return !sub->get_group().empty(); }))
        all.push_back(each);
    return all;
}

std::vector<const CLI::Option *> options_of(const CLI::App &app, bool positional) {
    return app.get_options([=](const CLI::Option *option) { return option->get_positional() == positional; });
}

std::string option_name(const CLI::Option &option) { return option.get_name(false, true); }

// --- man page -------------------------------------------------------------------------------------------------------------

std::string troff(std::string_view text) {
    std::string out;
    bool line_start = true;
    for (char c : text) {
        if (line_start && (c == '.' || c == '\''))
            out += "\\&";
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";
        else if (c == '\'')
            out += "\\(aq";
        else if (c == '^')
            out += "\\(ha";
        else if (c == '~')
            out += "\\(ti";
        else
            out += c;
        line_start = c == '\n';
    }
    // The only character beyond ASCII in these texts.
    for (std::size_t at; (at = out.find("…")) != std::string::npos;)
        out.replace(at, std::string_view("…").size(), "...");
    return out;
}

std::string item(const std::string &name, const std::string &argument, const std::string &text) {
    return ".TP\n\\fB" + troff(name) + "\\fR" + (argument.empty() ? "" : " \\fI" + troff(argument) + "\\fR") + "\n" +
           troff(text) + "\n";
}

std::string argument_of(const CLI::Option &option) { return option.get_type_size() == 0 ? "" : option.get_type_name(); }

std::string option_items(const CLI::App &app) {
    std::string out;
    for (const CLI::Option *each : options_of(app, true))
        out += ".TP\n\\fI" + troff(each->get_name(true, false)) + "\\fR\n" + troff(each->get_description()) + "\n";
    for (const CLI::Option *each : options_of(app, false))
        if (each != app.get_help_ptr() || app.get_parent() == nullptr)
            out += item(option_name(*each), argument_of(*each),
                        each->get_description() + (each->get_required() ? " (required)" : ""));
    return out;
}

/// The part of a footer below "Examples:", unchanged.
std::string examples_of(const CLI::App &app) {
    const std::string footer = app.get_footer();
    static constexpr std::string_view heading = "Examples:\n";
    const std::size_t at = footer.find(heading);
    return at == std::string::npos ? "" : ".PP\n.nf\n" + troff(footer.substr(at + heading.size())) + "\n.fi\n";
}

std::string without_empty_lines(std::string text) {
    for (std::size_t at; (at = text.find("\n\n")) != std::string::npos;)
        text.erase(at, 1);
    return text;
}

void append_subcommands(std::string &out, const CLI::App &app, const std::string &path) {
    for (const CLI::App *each : visible_subcommands(app)) {
        const std::string name = path.empty() ? each->get_name() : path + " " + each->get_name();
        if (!visible_subcommands(*each).empty()) {
            append_subcommands(out, *each, name);
            continue;
        }
        std::string usage = name + " [OPTION...]";
        for (const CLI::Option *positional : options_of(*each, true))
            usage += " " + positional->get_name(true, false);
        if (name == "run" || name == "lock" || name == "step")
            usage += " -- COMMAND [ARGUMENT...]";
        out += ".SS \"" + troff(usage) + "\"\n" + troff(each->get_description()) + ".\n" + option_items(*each) +
               examples_of(*each);
    }
}

// --- completion -----------------------------------------------------------------------------------------------------------

/// The words that may follow each path of subcommands: "token issue" -> "--subject --scope …".
void append_cases(std::string &words, std::string &values, const CLI::App &app, const std::string &path,
                  const std::string &global) {
    std::string list;
    for (const CLI::App *each : visible_subcommands(app))
        list += (list.empty() ? "" : " ") + each->get_name();
    std::string arguments; // options that take one
    for (const CLI::Option *each : options_of(app, false)) {
        for (const std::string &name : each->get_lnames()) {
            list += (list.empty() ? "" : " ") + ("--" + name);
            if (each->get_type_size() != 0)
                arguments += (arguments.empty() ? "" : "|") + ("--" + name);
        }
        for (const std::string &name : each->get_snames())
            if (each->get_type_size() != 0)
                arguments += (arguments.empty() ? "" : "|") + ("-" + name);
    }
    if (app.get_parent() != nullptr)
        list += " " + global;
    if (app.get_name() == "completion")
        list = "bash zsh " + list;
    words += "        '" + path + "') words='" + list + "' ;;\n";
    if (!arguments.empty())
        values += "        '" + path + "'/" + [&] {
            std::string each;
            for (char c : arguments)
                each += c == '|' ? "|'" + path + "'/" : std::string(1, c);
            return each;
        }() + ") return 0 ;;\n";
    for (const CLI::App *each : visible_subcommands(app))
        append_cases(words, values, *each, path.empty() ? each->get_name() : path + " " + each->get_name(), global);
}

std::string path_patterns(const CLI::App &app, const std::string &path) {
    std::string out;
    for (const CLI::App *each : visible_subcommands(app)) {
        const std::string name = path.empty() ? each->get_name() : path + " " + each->get_name();
        out += (out.empty() && path.empty() ? "" : "|") + ("'" + name + "'") + path_patterns(*each, name);
    }
    return out;
}

constexpr std::string_view kScript =
    R"(# Completion of idem, made by `idem completion`. Works in bash, and in zsh through bashcompinit.
_idem() {
    local word path='' previous='' words='' i=1
    local current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    while [ "$i" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[i]}
        i=$((i + 1))
        case $path in
        run | lock | step)
            # The rest is another command.
            if [ "$word" = -- ]; then
                COMPREPLY=($(compgen -c -f -- "$current"))
                return 0
            fi
            ;;
        esac
        case ${path:+$path }$word in
        @PATHS@) path=${path:+$path }$word ;;
        esac
        previous=$word
    done
    case $path/$previous in
        */--dsn) return 0 ;;
        'run'/--on-failure) COMPREPLY=($(compgen -W 'release complete' -- "$current")); return 0 ;;
        'http-test'/--profile) COMPREPLY=($(compgen -W 'ietf stripe acp ucp' -- "$current")); return 0 ;;
@VALUES@    esac
    case $path in
@WORDS@    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return 0
}
)";

void replace(std::string &text, std::string_view what, const std::string &with) {
    text.replace(text.find(what), what.size(), with);
}

} // namespace

std::string man_page(const CLI::App &tree) {
    std::string out =
        ".TH IDEM 1 \"\" \"idem " IDEM_VERSION "\" \"idem\"\n"
        ".SH NAME\nidem \\- make work happen exactly once\n"
        ".SH SYNOPSIS\n.B idem\n[\\fIOPTION\\fR...] \\fISUBCOMMAND\\fR ...\n"
        ".SH DESCRIPTION\n" +
        troff(tree.get_description()) +
        "\nThe database must have the extension \\fBidem\\fR or its portable edition. A duration is one or more "
        "numbers with units, which are added up: 500ms, 30s, "
        "\"5 min\", 1h30m, 7d, 2w. A day has 24 hours. Results go to standard output, everything else to standard "
        "error.\n";
    out += ".SH OPTIONS\nThese may also follow the subcommand.\n" + option_items(tree);
    out += ".SH SUBCOMMANDS\n";
    append_subcommands(out, tree, "");
    out += ".SH ENVIRONMENT\n"
           "The variables of libpq (PGHOST, PGPORT, PGDATABASE, PGUSER, PGSERVICE, PGPASSFILE, ...) locate the database.\n"
           ".PP\nSet for the command of \\fBrun\\fR and \\fBlock\\fR:\n" +
           item("IDEM_FENCE", "", "The fencing token: greater than that of every earlier holder.") +
           item("IDEM_KEY, IDEM_ATTEMPT", "", "run: the key, and the number of this attempt, from 1.") +
           item("IDEM_LOCK", "", "lock: the lock's name.") + item("IDEM_SCOPE", "", "The scope.");
    out += ".SH EXIT STATUS\n";
    for (const exit_meaning &each : exit_meanings())
        out += item(each.code, "", each.meaning);
    out += ".SH SEE ALSO\n.BR idem (7),\n.BR psql (1),\n.BR flock (1),\n.BR timeout (1)\n";
    return without_empty_lines(out);
}

std::string completion_script(const CLI::App &tree, const std::string &shell) {
    std::string global, words, values;
    for (const CLI::Option *each : options_of(tree, false))
        for (const std::string &name : each->get_lnames())
            if (name != "help" && name != "version")
                global += (global.empty() ? "" : " ") + ("--" + name);
    append_cases(words, values, tree, "", global);
    std::string script(kScript);
    replace(script, "@PATHS@", path_patterns(tree, ""));
    replace(script, "@VALUES@", values);
    replace(script, "@WORDS@", words);
    if (shell == "bash")
        return script + "complete -o default -F _idem idem\n";
    return "#compdef idem\nautoload -U +X bashcompinit && bashcompinit\n" + script + "complete -o default -F _idem idem\n";
}

int print_completion(context &c) {
    print(completion_script(c.tree, c.given.shell));
    return kDone;
}

int print_manual(context &c) {
    print(man_page(c.tree));
    return kDone;
}

} // namespace idem::cli
