// How each recorded call is said in SQL, how its answer is read, and which errors are an answer.
#pragma once

#include "connection.hpp"
#include "history.hpp"

namespace chaos {

struct Question {
    std::string sql;
    std::vector<Value> values;
};

// What is asked but not recorded: it changes when an answer comes, not which ones are right.
struct Manner {
    Value wait = "0";  // of begin and lock; nullopt: without bound
    std::string token; // the text of a token, whose step names it
};

Question question_of(const Step &step, const Manner &manner);

// Fills in what the step was answered.
void take_answer(Step *step, const Answer &answer);

// One idem_claim_many for claims of one scope and retention, each of which is recorded by itself. REQUIRES: there is one.
Question question_of_batch(const std::vector<Step> &claims);
void take_answer_of_batch(std::vector<Step> *claims, const Answer &answer);

// Whether the contract lets the call raise this, cancels and lost servers included.
bool is_foreseen(const Step &step, const std::string &sqlstate);

// Raised by the server as it goes down, or as it throws the session out.
bool is_farewell(const std::string &sqlstate);

// "acquired", "taken_over", true, "accepted": the work is the caller's.
bool is_granted(const Step &step);

} // namespace chaos
