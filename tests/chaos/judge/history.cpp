#include "history.hpp"

#include <array>
#include <charconv>
#include <istream>
#include <map>
#include <ostream>
#include <stdexcept>
#include <string_view>

namespace chaos {
namespace {

constexpr std::string_view kHeading = "idem-chaos-history 1";
constexpr std::array<std::string_view, 18> kCalls = {
    "claim",  "try_claim", "begin",      "complete", "release",      "renew",      "step",   "lookup",  "forget",
    "redeem", "lock",      "renew_lock", "unlock",   "assert_fence", "transition", "adjust", "publish", "sweep"};
constexpr std::array<std::string_view, 3> kFates = {"committed", "aborted", "unknown"};

// A field is name=value; values have blanks, control characters and the percent sign as %XX.
std::string escaped(std::string_view text) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    std::string out;
    for (const unsigned char c : text) {
        if (c <= ' ' || c == '%' || c == 0x7f) {
            out += '%';
            out += kDigits[c >> 4];
            out += kDigits[c & 15];
        } else {
            out += static_cast<char>(c);
        }
    }
    return out;
}

std::string unescaped(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        unsigned value = 0;
        const auto digits = text.substr(i + 1, 2);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        if (digits.size() != 2 || error != std::errc{} || end != digits.data() + 2)
            throw std::runtime_error("bad escape");
        out += static_cast<char>(value);
        i += 2;
    }
    return out;
}

class Line {
  public:
    Line(std::ostream &out, std::string_view kind) : out_(out) { out_ << kind; }
    ~Line() { out_ << '\n'; }
    Line(const Line &) = delete;
    Line &operator=(const Line &) = delete;

    Line &text(std::string_view name, std::string_view value) {
        out_ << ' ' << name << '=' << escaped(value);
        return *this;
    }
    Line &number(std::string_view name, std::int64_t value) {
        out_ << ' ' << name << '=' << value;
        return *this;
    }
    Line &id(std::string_view name, std::uint64_t value) {
        out_ << ' ' << name << '=' << value;
        return *this;
    }
    Line &time(std::string_view name, Nanoseconds value) { return value == kNever ? *this : number(name, value); }
    Line &text_unless_empty(std::string_view name, std::string_view value) { return value.empty() ? *this : text(name, value); }
    Line &number_unless_zero(std::string_view name, std::int64_t value) { return value == 0 ? *this : number(name, value); }

  private:
    std::ostream &out_;
};

class Fields {
  public:
    explicit Fields(std::string_view line) {
        kind_ = next(line);
        while (!line.empty()) {
            const auto field = next(line);
            const auto equals = field.find('=');
            if (equals == std::string_view::npos)
                throw std::runtime_error("a field without \"=\"");
            values_.emplace(field.substr(0, equals), field.substr(equals + 1));
        }
    }

    std::string_view kind() const { return kind_; }
    bool has(std::string_view name) const { return values_.contains(name); }
    std::string text(std::string_view name) const { return has(name) ? unescaped(values_.at(name)) : std::string{}; }
    template <typename Number> Number number(std::string_view name, Number otherwise = {}) const {
        if (!has(name))
            return otherwise;
        const auto value = values_.at(name);
        Number result{};
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
        if (error != std::errc{} || end != value.data() + value.size())
            throw std::runtime_error("bad number for \"" + std::string(name) + "\"");
        return result;
    }
    bool flag(std::string_view name) const { return number<int>(name) != 0; }

  private:
    static std::string_view next(std::string_view &line) {
        const auto blank = line.find(' ');
        const auto word = line.substr(0, blank);
        line.remove_prefix(blank == std::string_view::npos ? line.size() : blank + 1);
        return word;
    }

    std::string_view kind_;
    std::map<std::string_view, std::string_view> values_;
};

template <std::size_t N> std::size_t position(const std::array<std::string_view, N> &words, std::string_view word) {
    for (std::size_t i = 0; i < N; ++i)
        if (words[i] == word)
            return i;
    throw std::runtime_error("unknown word \"" + std::string(word) + "\"");
}

void write_step(std::ostream &out, const Step &step) {
    Line line(out, "step");
    line.text("call", to_string(step.call)).text_unless_empty("key", step.key);
    line.number("sent", step.sent).time("received", step.received);
    line.number_unless_zero("undone", step.undone).number_unless_zero("leased", step.leased);
    line.text_unless_empty("scope", step.scope).number_unless_zero("in_ring", step.in_ring);
    line.text_unless_empty("owner", step.owner).text_unless_empty("fingerprint", step.fingerprint);
    line.number_unless_zero("lease", step.lease).number_unless_zero("retention", step.retention);
    line.number_unless_zero("fence", step.fence).text_unless_empty("response", step.response);
    line.text_unless_empty("step", step.step_name)
        .text_unless_empty("to", step.to_state)
        .number_unless_zero("delta", step.delta);
    line.text_unless_empty("outcome", step.outcome).text_unless_empty("sqlstate", step.sqlstate);
    if (step.fence_given)
        line.number("fence_given", *step.fence_given);
    if (step.attempt)
        line.number("attempt", *step.attempt);
    if (step.response_given)
        line.text("response_given", *step.response_given);
    if (step.steps_given)
        line.text("steps_given", *step.steps_given);
    if (step.value_given)
        line.number("value_given", *step.value_given);
}

Step read_step(const Fields &fields) {
    Step step;
    step.call = static_cast<Call>(position(kCalls, fields.text("call")));
    step.key = fields.text("key");
    step.sent = fields.number<Nanoseconds>("sent");
    step.received = fields.number<Nanoseconds>("received", kNever);
    step.undone = fields.flag("undone");
    step.leased = fields.flag("leased");
    step.scope = fields.text("scope");
    step.in_ring = fields.flag("in_ring");
    step.owner = fields.text("owner");
    step.fingerprint = fields.text("fingerprint");
    step.lease = fields.number<Nanoseconds>("lease");
    step.retention = fields.number<Nanoseconds>("retention");
    step.fence = fields.number<std::int64_t>("fence");
    step.response = fields.text("response");
    step.step_name = fields.text("step");
    step.to_state = fields.text("to");
    step.delta = fields.number<std::int64_t>("delta");
    step.outcome = fields.text("outcome");
    step.sqlstate = fields.text("sqlstate");
    if (fields.has("fence_given"))
        step.fence_given = fields.number<std::int64_t>("fence_given");
    if (fields.has("attempt"))
        step.attempt = fields.number<int>("attempt");
    if (fields.has("response_given"))
        step.response_given = fields.text("response_given");
    if (fields.has("steps_given"))
        step.steps_given = fields.text("steps_given");
    if (fields.has("value_given"))
        step.value_given = fields.number<std::int64_t>("value_given");
    return step;
}

Transaction read_transaction(const Fields &fields) {
    Transaction transaction;
    transaction.id = fields.number<std::uint64_t>("id");
    transaction.client = fields.number<int>("client");
    transaction.isolation = fields.text("isolation");
    transaction.prepared = fields.flag("prepared");
    transaction.begun = fields.number<Nanoseconds>("begun");
    transaction.ended = fields.number<Nanoseconds>("ended", kNever);
    transaction.fate = static_cast<Fate>(position(kFates, fields.text("fate")));
    return transaction;
}

Effect read_effect(const Fields &fields) {
    return {fields.text("key"), fields.number<std::uint64_t>("transaction"), fields.number<std::int64_t>("fence")};
}

void write_effect(std::ostream &out, std::string_view kind, const Effect &effect) {
    Line(out, kind).text("key", effect.key).id("transaction", effect.transaction).number_unless_zero("fence", effect.fence);
}

void read_line(std::string_view text, History &history) {
    const Fields fields(text);
    const auto kind = fields.kind();
    const auto transaction = [&]() -> Transaction & {
        if (history.transactions.empty())
            throw std::runtime_error("no transaction yet");
        return history.transactions.back();
    };
    if (kind == "seed")
        history.setup.seed = fields.number<std::uint64_t>("value");
    else if (kind == "fences-by-name")
        history.setup.fences_by_name = true;
    else if (kind == "stock")
        history.setup.stock.emplace_back(fields.text("article"), fields.number<std::int64_t>("quantity"));
    else if (kind == "transition")
        history.setup.transitions.emplace_back(fields.text("from"), fields.text("to"));
    else if (kind == "transaction")
        history.transactions.push_back(read_transaction(fields));
    else if (kind == "step")
        transaction().steps.push_back(read_step(fields));
    else if (kind == "effect")
        transaction().effects.push_back(read_effect(fields));
    else if (kind == "final-effect")
        history.final_state.effects.push_back(read_effect(fields));
    else if (kind == "final-move")
        history.final_state.moves.push_back({fields.text("key"), fields.text("from"), fields.text("to")});
    else if (kind == "final-stock")
        history.final_state.stock.emplace_back(fields.text("article"), fields.number<std::int64_t>("quantity"));
    else if (kind == "final-state")
        history.final_state.states.emplace_back(fields.text("order"), fields.text("state"));
    else if (kind == "final-message")
        history.final_state.messages.emplace_back(fields.text("dedup_id"), fields.number<std::int64_t>("id"));
    else
        throw std::runtime_error("unknown kind of line \"" + std::string(kind) + "\"");
}

} // namespace

std::string_view to_string(Call call) { return kCalls.at(static_cast<std::size_t>(call)); }
std::string_view to_string(Fate fate) { return kFates.at(static_cast<std::size_t>(fate)); }

void write(std::ostream &out, const History &history) {
    out << kHeading << '\n';
    Line(out, "seed").id("value", history.setup.seed);
    if (history.setup.fences_by_name)
        Line(out, "fences-by-name");
    for (const auto &[article, quantity] : history.setup.stock)
        Line(out, "stock").text("article", article).number("quantity", quantity);
    for (const auto &[from, to] : history.setup.transitions)
        Line(out, "transition").text("from", from).text("to", to);
    for (const auto &transaction : history.transactions) {
        Line(out, "transaction")
            .id("id", transaction.id)
            .number("client", transaction.client)
            .text_unless_empty("isolation", transaction.isolation)
            .number_unless_zero("prepared", transaction.prepared)
            .number("begun", transaction.begun)
            .time("ended", transaction.ended)
            .text("fate", to_string(transaction.fate));
        for (const auto &step : transaction.steps)
            write_step(out, step);
        for (const auto &effect : transaction.effects)
            write_effect(out, "effect", effect);
    }
    for (const auto &effect : history.final_state.effects)
        write_effect(out, "final-effect", effect);
    for (const auto &[key, from, to] : history.final_state.moves)
        Line(out, "final-move").text("key", key).text("from", from).text("to", to);
    for (const auto &[article, quantity] : history.final_state.stock)
        Line(out, "final-stock").text("article", article).number("quantity", quantity);
    for (const auto &[order, state] : history.final_state.states)
        Line(out, "final-state").text("order", order).text("state", state);
    for (const auto &[dedup_id, id] : history.final_state.messages)
        Line(out, "final-message").text("dedup_id", dedup_id).number("id", id);
}

History read(std::istream &in) {
    History history;
    std::string line;
    std::size_t number = 0;
    while (std::getline(in, line)) {
        ++number;
        try {
            if (number == 1) {
                if (line != kHeading)
                    throw std::runtime_error("not a history of this format");
            } else if (!line.empty()) {
                read_line(line, history);
            }
        } catch (const std::exception &error) {
            throw std::runtime_error("line " + std::to_string(number) + ": " + error.what());
        }
    }
    if (number == 0)
        throw std::runtime_error("line 1: the file is empty");
    return history;
}

} // namespace chaos
