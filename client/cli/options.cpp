#include "options.hpp"

#include <algorithm>
#include <string_view>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "duration.hpp"
#include "exit_code.hpp"
#include "usage.hpp"

namespace idem::cli {

namespace {

bool takes_command(std::string_view subcommand) { return subcommand == "run" || subcommand == "lock" || subcommand == "step"; }

class help_format : public CLI::Formatter {
  public:
    std::string make_usage(const CLI::App *app, std::string name) const override {
        std::string usage = CLI::Formatter::make_usage(app, name);
        if (takes_command(app->get_name()))
            usage.insert(usage.find_last_not_of('\n') + 1, " -- COMMAND [ARGUMENT...]");
        return usage;
    }
};

// From version 2.5 on, CLI11 reflows footers as paragraphs; these have lists and examples.
template <typename Format> void keep_lines_of_footers(Format &format) {
    if constexpr (requires { format.enable_footer_formatting(false); })
        format.enable_footer_formatting(false);
}

CLI::Option *add_duration(CLI::App *app, const char *name, std::optional<duration> &to, const char *description) {
    return app
        ->add_option_function<std::string>(
            name, [&to](const std::string &text) { to = parse_duration(text); }, description)
        ->type_name("DURATION");
}

CLI::Option *add_duration(CLI::App *app, const char *name, duration &to, const char *description) {
    return app
        ->add_option_function<std::string>(
            name, [&to](const std::string &text) { to = parse_duration(text); }, description)
        ->type_name("DURATION");
}

void add_wait(CLI::App *app, wait_limit &to) {
    app->add_option_function<std::string>(
           "--wait",
           [&to](const std::string &text) {
               to = text == "forever" ? wait_limit::forever() : wait_limit(parse_duration(text));
           },
           "How long to wait for another holder, or \"forever\" (default: not at all)")
        ->type_name("DURATION");
}

void add_scope(CLI::App *app, settings &given) {
    app->add_option("--scope", given.scope, "The space in which the name is unique (default: the empty scope)")
        ->type_name("SCOPE");
}

void add_ttl(CLI::App *app, settings &given, const char *description) { add_duration(app, "--ttl", given.ttl, description); }

CLI::App *add(CLI::App &root, const char *name, const char *description, settings &given, action run, const char *examples) {
    CLI::App *app = root.add_subcommand(name, description);
    app->fallthrough();
    app->footer(std::string("Examples:\n") + examples);
    app->callback([&given, run] { given.run = run; });
    return app;
}

void add_run(CLI::App &root, settings &given) {
    CLI::App *app = add(root, "run", "Run a command once per key, on the first host that claims the key", given, run_once,
                        "  idem run --key report-$(date +%F) -- make-report\n"
                        "  idem run --key bill-7 --ttl 90d --lease 1min --store-output -- bill --customer 7\n"
                        "  idem run --key import --wait 10min --on-failure complete -- import.sh\n");
    app->add_option("--key", given.key, "The command's idempotency key")->required()->type_name("KEY");
    add_scope(app, given);
    add_ttl(app, given, "How long the key is kept after the command has ended (default: the scope's, else idem.default_ttl)");
    add_duration(
        app, "--lease", given.lease,
        "How long this host may be silent before others take over; renewed after each third of it while the command runs "
        "(default: the scope's, else idem.default_lease)");
    add_wait(app, given.wait);
    app->add_flag("--store-output", given.store_output, "Also store the output of the command, and replay it to later callers");
    app->add_option("--max-output", given.max_output,
                    "Limit of stdout, and of stderr, in bytes; nothing of a stream over the limit is stored (default: 262144)")
        ->type_name("BYTES");
    app->add_option_function<std::string>(
           "--on-failure", [&given](const std::string &text) { given.complete_failures = text == "complete"; },
           "If the command fails: \"release\" the key, so that the command can run again (default), or \"complete\" it, so "
           "that the failure is the result")
        ->type_name("POLICY")
        ->check(CLI::IsMember({"release", "complete"}));
    app->add_flag("--any-command", given.any_command,
                  "Do not compare the command with the one that the key was first used for");
    add_duration(app, "--grace", given.grace,
                 "Time between TERM and KILL when the command must stop because the lease is lost (default: 10s)");
}

void add_lock(CLI::App &root, settings &given) {
    CLI::App *app = add(root, "lock", "Run a command while holding a lock that all hosts share", given, run_locked,
                        "  idem lock nightly -- nightly.sh\n"
                        "  idem lock deploy --ttl 1min --wait 15min -- sh -c 'deploy --fence \"$IDEM_FENCE\"'\n");
    app->add_option("NAME", given.key, "The lock's name")->required();
    add_scope(app, given);
    add_ttl(app, given,
            "How long this host may be silent before others may take the lock; renewed after each third of it (default: 30s)");
    add_wait(app, given.wait);
    add_duration(app, "--grace", given.grace,
                 "Time between TERM and KILL when the command must stop because the lock is lost (default: 10s)");
}

void add_step(CLI::App &root, settings &given) {
    CLI::App *app = add(root, "step", "Run a part of the command of an \"idem run\" once over all attempts", given, take_step,
                        "  idem run --key bill-7 -- sh -ec '\n"
                        "      idem step charge --reconcile \"charged bill-7\" -- charge bill-7\n"
                        "      idem step mail -- send-mail bill-7'\n");
    app->add_option("NAME", given.key, "The step's name")->required();
    app->add_option("--reconcile", given.reconcile,
                    "Shell command that finds out whether a step that an earlier attempt began has happened. Exit code 0: it "
                    "has, and the output of the shell command is the step's output; 1: it has not; any other: unknown")
        ->type_name("COMMAND");
    app->add_option("--max-output", given.max_output,
                    "Limit of stdout, and of stderr, in bytes; nothing of a stream over the limit is stored (default: 262144)")
        ->type_name("BYTES");
    add_duration(app, "--grace", given.grace, "Time between TERM and KILL when the command must stop (default: 10s)");
}

void add_keys(CLI::App &root, settings &given) {
    CLI::App *claim =
        add(root, "claim",
            "Claim a key, for work that follows at most once: acquired (0) for the first caller, completed (1) for later ones",
            given, claim_key,
            "  idem claim mail-7f3a && send-mail 7f3a\n"
            "  idem claim --ttl 7d --scope import row-17\n");
    claim->add_option("KEY", given.key, "The key")->required();
    add_scope(claim, given);
    add_ttl(claim, given, "How long the key stays unique (default: the scope's, else idem.default_ttl)");
    add_wait(claim, given.wait);

    CLI::App *lookup = add(root, "lookup", "Show the state, the response and the times of a key", given, lookup_key,
                           "  idem lookup report-2026-01-31\n"
                           "  idem lookup --json --scope payments pay-7f3a\n");
    lookup->add_option("KEY", given.key, "The key")->required();
    add_scope(lookup, given);

    CLI::App *forget = add(root, "forget", "Delete a key, so that its work can be done again", given, forget_key,
                           "  idem forget report-2026-01-31\n");
    forget->add_option("KEY", given.key, "The key")->required();
    add_scope(forget, given);
}

void add_tokens(CLI::App &root, settings &given) {
    CLI::App *token = root.add_subcommand("token", "One-time tokens");
    token->fallthrough();
    token->require_subcommand(1);
    token->footer("Examples:\n  idem token issue --subject alice --ttl 10min\n");
    CLI::App *issue = add(*token, "issue", "Print a token that can be redeemed once", given, issue_token,
                          "  idem token issue --subject alice --ttl 10min\n");
    CLI::App *redeem = add(*token, "redeem", "Redeem a token: accepted (0), or the reason why not (1)", given, redeem_token,
                           "  idem token redeem --subject alice \"$TOKEN\"\n");
    redeem->add_option("TOKEN", given.key, "The token")->required();
    for (CLI::App *each : {issue, redeem}) {
        each->add_option("--subject", given.subject, "The subject of the token: a user, a session, a form")->type_name("TEXT");
        add_scope(each, given);
    }
    add_ttl(issue, given, "How long the token can be redeemed, at most 7 days (default: 30 minutes)");
}

void add_rest(CLI::App &root, settings &given) {
    CLI::App *id =
        add(root, "next-id", "Print numbers that never repeat", given, next_ids, "  idem next-id\n  idem next-id --count 10\n");
    id->add_option("-n,--count", given.count, "How many numbers (default: 1)")->type_name("N")->check(CLI::Range(1, 1'000'000));

    CLI::App *move =
        add(root, "transition", "Move a row to another state of its machine: moved or already (0), or the reason why not (1)",
            given, move_row,
            "  idem transition orders '{\"id\": 7}' paid\n"
            "  idem transition shop.orders '{\"id\": 7}' shipped --from paid\n");
    move->add_option("TABLE", given.key, "The table, with its schema if the search_path does not have it")->required();
    move->add_option("ROW", given.row_key, "The row's key as a JSON object")->required();
    move->add_option("STATE", given.to_state, "The state to move to")->required();
    move->add_option("--from", given.from_state, "Move only from this state; otherwise the result is conflict")
        ->type_name("STATE");

    CLI::App *machine = root.add_subcommand("machine", "State machines");
    machine->fallthrough();
    machine->require_subcommand(1);
    machine->footer("Examples:\n  idem machine dot order | dot -Tsvg > order.svg\n");
    CLI::App *dot = add(*machine, "dot", "Print a machine as a graph, for Graphviz", given, draw_machine,
                        "  idem machine dot order | dot -Tsvg > order.svg\n");
    dot->add_option("NAME", given.key, "The machine")->required();
}

void add_operations(CLI::App &root, settings &given) {
    CLI::App *clean = add(root, "sweep", "Delete expired rows, in short batches", given, sweep,
                          "  idem sweep\n  idem sweep --batch 1000 --pause 100ms\n");
    clean->add_option("--batch", given.batch, "The most rows that a transaction deletes (default: 10000)")
        ->type_name("ROWS")
        ->check(CLI::Range(1, 1 << 30));
    add_duration(clean, "--pause", given.pause, "Pause between two batches (default: 0)");
    add(root, "stats", "Show the counts of outcomes, by scope", given, show_stats, "  idem stats\n  idem stats --json\n");
    add(root, "in-flight", "Show the keys whose work is in progress", given, show_in_flight, "  idem in-flight\n");
    add(root, "backlog", "Show how many messages wait in the outbox, by topic", given, show_backlog, "  idem backlog\n");
    add(root, "health", "Show the checks of the extension; exit code 1 if one of them failed", given, show_health,
        "  idem health\n  idem health --quiet || mail -s 'idem' ops < /dev/null\n");
    CLI::App *completion = add(root, "completion", "Print the completion script for a shell", given, print_completion,
                               "  idem completion bash > /etc/bash_completion.d/idem\n"
                               "  idem completion zsh > /usr/local/share/zsh/site-functions/_idem\n");
    completion->add_option("SHELL", given.shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
    add(root, "manual", "Print the man page", given, print_manual, "  idem manual | man -l -\n")->group("");
}

void add_http_test(CLI::App &root, settings &given) {
    CLI::App *app =
        add(root, "http-test", "Test how an HTTP server handles the Idempotency-Key; needs no database", given, test_server,
            "  idem http-test http://localhost:3000/orders --body '{\"item\": \"apples\", \"amount\": 1}'\n"
            "  idem http-test https://shop.example/checkout_sessions --profile acp --body \"$(cat session.json)\" \\\n"
            "      --header \"Authorization: Bearer $TOKEN\" --junit report.xml\n");
    http_test_options &http = given.http;
    const auto text = [app](const char *name, std::string &to, const char *type, const char *description) {
        return app->add_option(name, to, description)->type_name(type);
    };
    app->add_option("URL", http.url, "The route under test: an operation that gives another response (an id) for each new key")
        ->required();
    text("--profile", http.profile, "PROFILE", "The protocol: ietf (default), stripe, acp or ucp")
        ->check(CLI::IsMember({"ietf", "stripe", "acp", "ucp"}));
    text("--method", http.method, "METHOD", "The method (default: POST)");
    text("--route", http.route, "PATH", "The path, in the place of the URL's");
    text("--body", http.body, "BODY", "The request's body (default: {}). Cases of JSON vary its members, integers and arrays");
    text("--content-type", http.content_type, "TYPE", "The body's type (default: application/json)");
    app->add_option("--header", http.headers, "A header field of each request, \"Name: value\"; may be repeated")
        ->type_name("HEADER")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    text("--other-body", http.other_body, "BODY",
         "The body of another request (default: the body with another number or text)");
    text("--other-route", http.other_route, "PATH", "A second route that takes the same body");
    text("--other-method", http.other_method, "METHOD", "A second method that the route has");
    text("--other-client", http.other_client, "HEADER",
         "A header that identifies a second client, such as \"Authorization: Bearer t0k3n\"");
    text("--slow-body", http.slow_body, "BODY", "A body whose request takes at least half a second");
    text("--fail-body", http.fail_body, "BODY", "A body whose work fails: the response is a 4xx");
    text("--error-body", http.error_body, "BODY", "A body whose response is a 5xx");
    text("--invalid-body", http.invalid_body, "BODY", "A body that is rejected by a 4xx before the work");
    text("--effects", http.effects, "PATH",
         "Counts executions: GET of this path, with {key} for the key, returns {\"count\": N}");
    app->add_option("--at-once", http.at_once, "How many requests a double click sends (default: 10)")
        ->type_name("N")
        ->check(CLI::Range(2, 1000));
    add_duration(app, "--timeout", http.timeout, "How long to wait for a response (default: 10s)");
    text("--only", http.only, "CASE", "Only the cases whose names begin so: race, or json.null");
    text("--junit", http.junit, "FILE", "Also write the results as JUnit XML");
    app->add_flag("--reference", http.reference, "The server is the reference app of tests/conformance: also run its cases");
    text("--restart", http.restart, "COMMAND", "With --reference: shell command that starts the server after it was killed");
}

} // namespace

std::unique_ptr<CLI::App> make_tree(settings &given) {
    auto root = std::make_unique<CLI::App>("Makes work happen exactly once, with the help of a PostgreSQL database.", "idem");
    auto format = std::make_shared<help_format>();
    keep_lines_of_footers(*format);
    format->column_width(28);
    format->label("REQUIRED", "(required)");
    format->label("OPTIONS", "OPTION...");
    format->label("SUBCOMMAND", "SUBCOMMAND");
    root->formatter(format);
    root->option_defaults()->take_last();
    root->set_help_flag("-h,--help", "Print this and exit");
    root->set_version_flag("--version", IDEM_VERSION, "Print the version and exit");
    root->add_option("--dsn", given.dsn,
                     "Connection string or URI (default: libpq's environment: PGHOST, PGDATABASE, PGSERVICE …)")
        ->type_name("DSN");
    root->add_flag("-q,--quiet", given.quiet, "Leave out notes on stderr, and keep errors");
    root->add_flag("--json", given.json, "Print the result as JSON");
    root->require_subcommand(1);
    add_run(*root, given);
    add_lock(*root, given);
    add_step(*root, given);
    add_keys(*root, given);
    add_tokens(*root, given);
    add_rest(*root, given);
    add_operations(*root, given);
    add_http_test(*root, given);

    std::string footer =
        "A duration is one or more numbers with units, which are added up: 500ms, 30s, \"5 min\", 1h30m, 7d, 2w.\n"
        "A day has 24 hours. Results go to stdout, everything else to stderr.\n"
        "--dsn, --quiet and --json may also follow the subcommand.\n\n"
        "Exit codes:\n";
    for (const exit_meaning &each : exit_meanings())
        footer +=
            "  " + std::string(each.code) + std::string(8 - std::string_view(each.code).size(), ' ') + each.meaning + "\n";
    footer += "\nExamples:\n"
              "  idem run --key report-$(date +%F) -- make-report\n"
              "  idem lock nightly --wait 5min -- nightly.sh\n"
              "  idem run --help";
    root->footer(footer);
    return root;
}

split_words split_command(int argc, const char *const *argv) {
    split_words words;
    words.before.assign(argv + 1, argv + argc);
    // The subcommand is the first word that is neither an option nor an option's value.
    std::size_t i = 0;
    while (i < words.before.size() && words.before[i].size() > 1 && words.before[i][0] == '-')
        i += words.before[i] == "--dsn" ? 2 : 1;
    if (i >= words.before.size() || !takes_command(words.before[i]))
        return words;
    const auto mark = std::find(words.before.begin() + static_cast<std::ptrdiff_t>(i), words.before.end(), "--");
    if (mark == words.before.end())
        return words;
    words.split = true;
    words.command.assign(mark + 1, words.before.end());
    words.before.erase(mark, words.before.end());
    return words;
}

} // namespace idem::cli
