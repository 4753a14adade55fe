#include "recorder.hpp"
#include "scenarios.hpp"

namespace chaos {

namespace {

Step named_step(Call call, const std::string &name) {
    Step step;
    step.call = call;
    step.key = name;
    return step;
}

// Issuing writes nothing and is not recorded.
void issue_token(Client &client) {
    const Answer answer = client.connection.run("SELECT idem_token_issue()");
    if (answer.ok())
        client.round.board.tokens.add({client.round.board.name_token(), *answer.field()});
}

} // namespace

void redeem(Client &client) {
    Random &random = client.random;
    if (random.chance(0.1))
        issue_token(client);
    const std::optional<Token> token = client.round.board.tokens.pick(random);
    if (!token)
        return;
    Manner manner;
    manner.token = token->text;
    Recorder tx(client);
    const bool in_savepoint = random.chance(0.2);
    if (in_savepoint)
        tx.savepoint();
    if (is_granted(tx.ask(named_step(Call::redeem, token->name), manner)))
        tx.leave_effect(token->name);
    if (in_savepoint && random.chance(0.5))
        tx.roll_back_to_savepoint();
    else if (in_savepoint)
        tx.release_savepoint();
    if (random.chance(0.2))
        sleep_for(random.between(1, 20) * kMillisecond);
    tx.end_somehow();
}

void move_an_order(Client &client) {
    static const std::vector<std::string> kStates{"created", "paid", "shipped", "returned", "refunded", "cancelled"};
    Random &random = client.random;
    Recorder tx(client);
    for (std::int64_t left = random.between(1, 2); left > 0 && tx.is_open(); left--) {
        Step step = named_step(Call::transition, client.round.board.orders.pick(random));
        step.to_state = random.pick(kStates);
        tx.ask(step);
    }
    tx.end_somehow();
}

void sell(Client &client) {
    Random &random = client.random;
    Step step = named_step(Call::adjust, client.round.board.articles.pick(random));
    step.delta = random.chance(0.8) ? -random.between(1, 3) : random.between(1, 2);
    if (random.chance(0.3)) {
        Recorder::alone(client, step);
        return;
    }
    Recorder tx(client);
    tx.ask(step);
    if (random.chance(0.2))
        sleep_for(random.between(1, 20) * kMillisecond);
    tx.end_somehow();
}

void publish(Client &client) {
    Random &random = client.random;
    Board &board = client.round.board;
    if (random.chance(0.4)) {
        Recorder::alone(client, named_step(Call::publish, board.messages.pick(random)));
        return;
    }
    Recorder tx(client);
    for (std::int64_t left = random.between(1, 2); left > 0 && tx.is_open(); left--) {
        const bool in_savepoint = random.chance(0.25);
        if (in_savepoint)
            tx.savepoint();
        tx.ask(named_step(Call::publish, board.messages.pick(random)));
        if (in_savepoint && random.chance(0.4))
            tx.roll_back_to_savepoint();
        else if (in_savepoint)
            tx.release_savepoint();
    }
    if (random.chance(0.2))
        sleep_for(random.between(1, 20) * kMillisecond);
    tx.end_somehow();
}

void sweep(Client &client) { Recorder::alone(client, named_step(Call::sweep, "")); }

} // namespace chaos
