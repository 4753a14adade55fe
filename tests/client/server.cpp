#include "server.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <idem/statement.hpp>

namespace test {

namespace {

std::string environment(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

std::string shell_word(const std::string &word) {
    std::string safe = "'";
    for (char c : word)
        safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return safe + "'";
}

int shell(const std::string &script) {
    const int status = std::system(("bash -c " + shell_word(script)).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

std::string output_of(const std::string &command) {
    std::string all;
    FILE *pipe = popen(command.c_str(), "r");
    if (pipe == nullptr)
        throw std::runtime_error("could not run " + command);
    for (char buffer[256]; std::fgets(buffer, sizeof buffer, pipe) != nullptr;)
        all += buffer;
    pclose(pipe);
    while (!all.empty() && all.back() == '\n')
        all.pop_back();
    return all;
}

} // namespace

std::string dsn() { return ""; }

const std::string &edition() {
    static const std::string known = ask("SELECT edition FROM idem.idem_version()");
    return known;
}

idem::client make_client(idem::client_options options) { return idem::client(std::move(options)); }

std::string unique_key(const std::string &prefix) {
    static const std::string run = idem::detail::make_nonce().substr(0, 12);
    static std::atomic<int> count{0};
    return prefix + "-" + run + "-" + std::to_string(++count);
}

namespace {

std::string first_field(pqxx::connection &db, const std::string &sql, const std::vector<std::optional<std::string>> &values) {
    pqxx::nontransaction tx(db);
    const pqxx::result answer = values.empty() ? tx.exec(sql) : idem::detail::exec_with(tx, sql, values);
    return answer.empty() || answer[0][0].is_null() ? "" : answer[0][0].c_str();
}

constexpr char kCountEffects[] = "SELECT count(*) FROM public.client_effect WHERE key = $1";

} // namespace

std::string ask(const std::string &sql, const std::vector<std::optional<std::string>> &values, const std::string &at) {
    pqxx::connection db(at);
    return first_field(db, sql, values);
}

std::string observer::ask(const std::string &sql, const std::vector<std::optional<std::string>> &values) {
    const std::lock_guard lock(lock_);
    return first_field(db_, sql, values);
}

int observer::effects(const std::string &key) { return std::stoi(ask(kCountEffects, {key})); }

void leave_effect(pqxx::transaction_base &tx, const std::string &key) {
    tx.exec("INSERT INTO public.client_effect (key) VALUES (" + tx.quote(key) + ")");
}

int effects(const std::string &key, const std::string &at) { return std::stoi(ask(kCountEffects, {key}, at)); }

void prepare_database(const std::string &at) {
    // Each test may be a process of its own, and several run at once.
    ask("SELECT pg_catalog.pg_advisory_lock(4993); SET client_min_messages = warning;"
        "CREATE SCHEMA IF NOT EXISTS idem;"
        // The portable edition may be there from the template.
        "DO $$BEGIN IF to_regproc('idem.idem_version') IS NULL THEN CREATE EXTENSION idem SCHEMA idem; END IF; END$$;"
        "CREATE TABLE IF NOT EXISTS public.client_effect (key text NOT NULL, at timestamptz DEFAULT clock_timestamp());"
        "CREATE INDEX IF NOT EXISTS client_effect_key ON public.client_effect (key);"
        // COMMIT of a transaction that inserts here waits for an advisory lock.
        "CREATE TABLE IF NOT EXISTS public.client_gate (name text);"
        "CREATE OR REPLACE FUNCTION public.client_gate() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
        "PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(NEW.name, 0)); RETURN NULL; END$$;"
        "DO $$BEGIN IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'client_gate') THEN "
        "CREATE CONSTRAINT TRIGGER client_gate AFTER INSERT ON public.client_gate DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION public.client_gate(); END IF; END$$",
        {}, at);
}

bool eventually(const std::function<bool()> &holds, std::chrono::milliseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (!holds()) {
        if (std::chrono::steady_clock::now() >= end)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

std::chrono::milliseconds least_delay(std::chrono::milliseconds bound,
                                      const std::function<std::chrono::milliseconds()> &measure) {
    auto least = std::chrono::milliseconds::max();
    for (int i = 0; i < 3 && least >= bound; ++i)
        least = std::min(least, measure());
    return least;
}

int run_as_server(const std::vector<std::string> &command) {
    std::string script = "cd / && source " + shell_word(IDEM_SOURCE_DIR "/scripts/lib.sh") + " && as_server";
    for (const std::string &word : command)
        script += " " + shell_word(word);
    return shell(script + " </dev/null");
}

std::string server_programs() {
    const std::string given = environment("PG_CONFIG");
    return output_of(shell_word(given.empty() ? "pg_config" : given) + " --bindir");
}

private_server::private_server(const std::vector<std::string> &settings) {
    // A socket's path must be shorter than 108 bytes.
    const std::string shared = environment("PGHOST");
    std::string pattern = (!shared.empty() && shared[0] == '/' ? shared : std::string("/tmp")) + "/own-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr)
        throw std::runtime_error("could not make " + pattern + ": " + std::strerror(errno));
    directory_ = pattern;
    if (getuid() == 0 && shell("chown postgres: " + shell_word(directory_)) != 0)
        throw std::runtime_error("could not give " + directory_ + " to postgres");
    if (run_as_server({"bash", "-c",
                       "\"$0\"/initdb --pgdata=\"$1\"/data --username=postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 "
                       "--no-sync >\"$1\"/initdb.log 2>&1",
                       server_programs(), directory_}) != 0)
        throw std::runtime_error("initdb failed: see " + directory_ + "/initdb.log");
    std::ofstream file(directory_ + "/data/postgresql.conf", std::ios::app);
    file << "listen_addresses = ''\nunix_socket_directories = '" << directory_ << "'\nport = 5432\nfsync = off\n";
    for (const std::string &setting : settings)
        file << setting << '\n';
    file.close();
    if (!file)
        throw std::runtime_error("could not write " + directory_ + "/data/postgresql.conf");
    start();
    if (edition() == "portable")
        script("load_portable postgres");
    prepare_database(dsn());
}

private_server::~private_server() {
    run_as_server({server_programs() + "/pg_ctl", "stop", "--silent", "--mode=immediate", "--pgdata=" + directory_ + "/data"});
    shell("rm -rf " + shell_word(directory_));
}

std::string private_server::dsn() const { return "host=" + directory_ + " port=5432 user=postgres dbname=postgres"; }

void private_server::start() {
    if (run_as_server({server_programs() + "/pg_ctl", "start", "--silent", "--wait", "--timeout=60",
                       "--pgdata=" + directory_ + "/data", "--log=" + directory_ + "/server.log"}) != 0)
        throw std::runtime_error("the server did not start: see " + directory_ + "/server.log");
}

void private_server::stop(const std::string &mode) {
    if (run_as_server({server_programs() + "/pg_ctl", "stop", "--silent", "--wait", "--timeout=60", "--mode=" + mode,
                       "--pgdata=" + directory_ + "/data"}) != 0)
        throw std::runtime_error("the server did not stop: see " + directory_ + "/server.log");
}

void private_server::script(const std::string &commands) const {
    if (shell("source " + shell_word(IDEM_SOURCE_DIR "/scripts/lib.sh") + " && export PGHOST=" + shell_word(directory_) +
              " PGPORT=5432 PGUSER=postgres PGDATABASE=postgres && " + commands) != 0)
        throw std::runtime_error("failed: " + commands);
}

void private_server::reinstall() {
    if (edition() == "portable") {
        script(shell_word(server_programs() + "/psql") + " --no-psqlrc --quiet --username=idem_owner --file=" +
               shell_word(IDEM_SOURCE_DIR "/build/idem--portable-uninstall.sql") + " && load_portable postgres");
    } else {
        ask("DROP EXTENSION idem", {}, dsn());
        ask("CREATE EXTENSION idem SCHEMA idem", {}, dsn());
    }
}

void private_server::restart(const std::string &mode) {
    stop(mode);
    start();
}

} // namespace test
