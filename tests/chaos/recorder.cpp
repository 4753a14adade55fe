#include "recorder.hpp"

namespace chaos {

namespace {

const char *level_of(const std::string &isolation) {
    return isolation == "rc" ? "READ COMMITTED" : isolation == "rr" ? "REPEATABLE READ" : "SERIALIZABLE";
}

bool is_statement_timeout(const Answer &answer) { return answer.message.find("statement timeout") != std::string::npos; }

} // namespace

Recorder::Recorder(Client &client, Alone) : client_(client) {
    transaction_.id = client.round.next_transaction++;
    transaction_.client = client.number;
    transaction_.isolation = "rc";
    transaction_.begun = now();
}

Recorder::Recorder(Client &client) : Recorder(client, Alone{}) {
    transaction_.isolation = client.random.chance(0.6) ? "rc" : client.random.chance(0.5) ? "rr" : "ser";
    open_ = true;
    control(std::string("BEGIN ISOLATION LEVEL ") + level_of(transaction_.isolation));
}

Recorder::~Recorder() {
    if (open_)
        roll_back();
}

// A lost connection leaves its transaction to the server, which ends it when it notices: when that is, nobody knows.
void Recorder::end(Fate fate, bool certain_when) {
    transaction_.fate = fate;
    transaction_.ended = certain_when ? now() : kNever;
    open_ = false;
    if (!transaction_.steps.empty())
        client_.log.push_back(std::move(transaction_));
}

void Recorder::finding(const Step &step, const Answer &answer) {
    Transaction seen_in = transaction_;
    seen_in.steps.push_back(step);
    if (answer.hung || is_statement_timeout(answer))
        client_.round.findings.add("hung", step.key,
                                   "no answer within " + std::string(answer.hung ? "a minute" : "the timeout"), seen_in);
    else if (!answer.sqlstate.empty() && !is_foreseen(step, answer.sqlstate))
        client_.round.findings.add("unexpected_error", step.key, answer.sqlstate + ": " + answer.message, seen_in);
}

void Recorder::follow(const Answer &answer, bool is_alone) {
    const bool is_lost = answer.lost || is_farewell(answer.sqlstate);
    if (is_lost)
        client_.connection.close();
    if (is_alone) {
        end(is_lost ? Fate::unknown : answer.ok() ? Fate::committed : Fate::aborted, !is_lost);
    } else if (is_lost) {
        end(Fate::aborted, false);
    } else if (!answer.ok()) {
        if (in_savepoint_)
            roll_back_to_savepoint();
        else
            roll_back();
    }
}

Step Recorder::put(Step step, const Manner &manner, bool is_alone) {
    client_.maybe_cut(0.004, 6);
    const Question question = question_of(step, manner);
    step.sent = now();
    const Answer answer = client_.connection.run(question.sql, question.values);
    step.received = now();
    take_answer(&step, answer);
    finding(step, answer);
    transaction_.steps.push_back(step);
    follow(answer, is_alone);
    return step;
}

std::vector<Step> Recorder::ask_batch(std::vector<Step> claims) {
    if (!open_ || claims.empty())
        return {};
    client_.maybe_cut(0.004, 6);
    const Question question = question_of_batch(claims);
    const Nanoseconds sent = now();
    const Answer answer = client_.connection.run(question.sql, question.values);
    const Nanoseconds received = now();
    for (Step &claim : claims) {
        claim.sent = sent;
        claim.received = received;
    }
    take_answer_of_batch(&claims, answer);
    finding(claims.front(), answer);
    transaction_.steps.insert(transaction_.steps.end(), claims.begin(), claims.end());
    follow(answer, false);
    return claims;
}

Step Recorder::ask(Step step, const Manner &manner) {
    if (!open_) {
        step.sqlstate = "25P02"; // not sent: who asks is to see that nothing came of it
        return step;
    }
    return put(std::move(step), manner, false);
}

Step Recorder::alone(Client &client, Step step, const Manner &manner) {
    Recorder recorder(client, Alone{});
    return recorder.put(std::move(step), manner, true);
}

// Statements that are no calls. False, and the transaction has ended, when it failed.
bool Recorder::control(const std::string &sql, const std::vector<Value> &values) {
    if (!open_)
        return false;
    const Answer answer = client_.connection.run(sql, values);
    if (answer.ok())
        return true;
    finding(Step{}, answer);
    if (answer.lost || is_farewell(answer.sqlstate)) {
        client_.connection.close();
        end(Fate::aborted, false);
    } else {
        roll_back();
    }
    return false;
}

void Recorder::leave_effect(const std::string &key, std::int64_t fence) {
    if (control("INSERT INTO chaos_effects (key, transaction, fence) VALUES ($1, $2, $3)",
                {key, std::to_string(transaction_.id), std::to_string(fence)}))
        transaction_.effects.push_back({key, transaction_.id, fence});
}

void Recorder::leave_effects(const std::vector<std::string> &keys) {
    if (keys.empty())
        return;
    std::string list;
    for (const std::string &key : keys)
        list += (list.empty() ? "{" : ",") + key;
    if (control("INSERT INTO chaos_effects (key, transaction, fence) SELECT key, $2, 0 FROM unnest($1::text[]) key",
                {list + "}", std::to_string(transaction_.id)}))
        for (const std::string &key : keys)
            transaction_.effects.push_back({key, transaction_.id, 0});
}

void Recorder::savepoint() {
    if (in_savepoint_ || !control("SAVEPOINT here"))
        return;
    in_savepoint_ = true;
    steps_before_ = transaction_.steps.size();
    effects_before_ = transaction_.effects.size();
}

void Recorder::release_savepoint() {
    if (open_ && in_savepoint_ && control("RELEASE here"))
        in_savepoint_ = false;
}

void Recorder::roll_back_to_savepoint() {
    if (!open_ || !in_savepoint_)
        return;
    in_savepoint_ = false;
    for (std::size_t i = steps_before_; i < transaction_.steps.size(); i++)
        transaction_.steps[i].undone = true;
    transaction_.effects.resize(effects_before_);
    if (control("ROLLBACK TO here"))
        control("RELEASE here");
}

bool Recorder::commit() {
    if (!open_)
        return false;
    client_.maybe_cut(transaction_.effects.empty() ? 0.01 : 0.1, 1);
    const Answer answer = client_.connection.run("COMMIT");
    finding(Step{}, answer);
    if (answer.lost || is_farewell(answer.sqlstate)) {
        client_.connection.close();
        end(Fate::unknown, false);
        return false;
    }
    if (!answer.ok()) {
        roll_back(); // a cancel that met COMMIT itself leaves a failed transaction open
        return false;
    }
    const bool committed = answer.tag == "COMMIT";
    if (!committed)
        client_.round.findings.add("commit_refused", "", "COMMIT of a transaction without an error answered " + answer.tag,
                                   transaction_);
    end(committed ? Fate::committed : Fate::aborted, true);
    return committed;
}

void Recorder::roll_back() {
    if (!open_)
        return;
    const Answer answer = client_.connection.run("ROLLBACK");
    if (!answer.ok())
        client_.connection.close(); // a cancel may have hit the ROLLBACK itself
    finding(Step{}, answer);
    end(Fate::aborted, answer.ok());
}

void Recorder::prepare() {
    if (!open_)
        return;
    transaction_.prepared = true;
    client_.maybe_cut(0.05, 1);
    const Answer answer = client_.connection.run("PREPARE TRANSACTION '" + prepared_name(transaction_) + "'");
    finding(Step{}, answer);
    const bool is_lost = answer.lost || is_farewell(answer.sqlstate);
    if (is_lost)
        client_.connection.close();
    if (!is_lost && !(answer.ok() && answer.tag == "PREPARE TRANSACTION")) {
        transaction_.prepared = false;
        roll_back();
        return;
    }
    open_ = false;
    client_.coordinator.take(std::move(transaction_), !is_lost);
}

void Recorder::hang_up() {
    if (!open_)
        return;
    client_.connection.close();
    end(Fate::aborted, false);
}

bool Recorder::end_somehow() {
    if (!open_)
        return false;
    Random &random = client_.random;
    if (random.chance(0.12)) {
        roll_back();
        return false;
    }
    if (random.chance(0.01)) {
        hang_up();
        return false;
    }
    if (client_.round.options.has("prepared") && random.chance(0.05) && !client_.coordinator.is_busy()) {
        prepare();
        return false;
    }
    return commit();
}

} // namespace chaos
