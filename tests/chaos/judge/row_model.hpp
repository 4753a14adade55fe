#ifndef IDEM_CHAOS_ROW_MODEL_HPP
#define IDEM_CHAOS_ROW_MODEL_HPP
// A row of a table as transactions see it: who changed it keeps everybody else from changing it until his transaction ends; he
// sees his own change, the others what has been committed; what a savepoint takes back was never there.
//
// Rules say what one call may answer and do to the row:
//   Row        copyable, ==
//   Call
//   struct Outcome { Row row; bool changed; }
//   void answers(const View<Row> &, const Call &, std::vector<Outcome> &) const    the outcomes with the answer that the call
//   gave bool reads_only(const Call &) const                                            none of them can be a change void
//   settle(Row &) const                                                       what is left of the row when its changer commits
//   std::size_t hash(const Row &) const
#include <cstdint>
#include <vector>

#include "linearizability.hpp"

namespace chaos::judge {

template <typename Row> struct View {
    const Row &seen; // with the asking transaction's own changes
    const Row &committed;
    bool own; // seen is the asking transaction's work
};

template <typename Row> struct Outcome {
    Row row;
    bool changed;
};

enum class Part {
    call,
    maybe_undo, // between two steps that were undone: together, or each by itself
    undo,       // ROLLBACK TO SAVEPOINT
    commit,
    abort,
    commit_or_abort
};

template <typename RowCall> struct RowOperation {
    using Call = RowCall;
    Part part = Part::call;
    std::uint32_t transaction = 0; // never 0 in use
    bool undone = false;
    RowCall call{};
};

template <typename Rules> struct RowModel {
    using Row = typename Rules::Row;
    using Operation = RowOperation<typename Rules::Call>;

    struct State {
        Row committed{};
        Row pending{}; // the holder's
        Row before{};  // what the holder goes back to at the end of a savepoint
        std::uint32_t holder = 0;
        bool in_savepoint = false; // pending has changes that will be undone
        bool held_before = false;  // before is a change as well
        bool operator==(const State &) const = default;
    };

    Rules rules;

    // Reading changes nothing. A transaction that changed nothing ends without a trace, and what is rolled back only kept
    // others from changing the row; its own further calls, if any, come after that anyway.
    bool at_once(const State &state, const Operation &operation) const {
        switch (operation.part) {
        case Part::call:
            return rules.reads_only(operation.call);
        case Part::undo:
        case Part::abort:
            return true;
        case Part::maybe_undo:
            return state.holder != operation.transaction || !state.in_savepoint;
        case Part::commit:
        case Part::commit_or_abort:
            return state.holder != operation.transaction;
        }
        return false;
    }

    std::size_t hash(const State &state) const {
        std::size_t hash = rules.hash(state.committed);
        hash_combine(hash, state.holder * 4 + state.in_savepoint * 2 + state.held_before);
        if (state.holder != 0)
            hash_combine(hash, rules.hash(state.pending));
        if (state.held_before)
            hash_combine(hash, rules.hash(state.before));
        return hash;
    }

    void step(const State &state, const Operation &operation, std::vector<State> &next) const {
        const bool own = state.holder == operation.transaction;
        switch (operation.part) {
        case Part::call:
            call(state, operation, own, next);
            return;
        case Part::maybe_undo:
            next.push_back(state);
            if (own && state.in_savepoint)
                next.push_back(undone(state));
            return;
        case Part::undo:
            next.push_back(own && state.in_savepoint ? undone(state) : state);
            return;
        case Part::commit:
            next.push_back(own ? committed(state) : state);
            return;
        case Part::abort:
            next.push_back(own ? released(state) : state);
            return;
        case Part::commit_or_abort:
            next.push_back(own ? released(state) : state);
            if (own)
                next.push_back(committed(state));
            return;
        }
    }

  private:
    void call(const State &state, const Operation &operation, bool own, std::vector<State> &next) const {
        std::vector<Outcome<Row>> outcomes;
        rules.answers({own ? state.pending : state.committed, state.committed, own}, operation.call, outcomes);
        for (auto &outcome : outcomes) {
            if (!outcome.changed) {
                next.push_back(state);
                continue;
            }
            if (!own && state.holder != 0)
                continue;
            State after = state;
            if (operation.undone && !(own && state.in_savepoint)) {
                after.in_savepoint = true;
                after.held_before = own;
                after.before = own ? state.pending : Row{};
            }
            after.holder = operation.transaction;
            after.pending = std::move(outcome.row);
            next.push_back(std::move(after));
        }
    }

    static State released(State state) {
        state.holder = 0;
        state.pending = state.before = Row{};
        state.in_savepoint = state.held_before = false;
        return state;
    }

    static State undone(State state) {
        if (!state.held_before)
            return released(std::move(state));
        state.pending = state.before;
        state.before = Row{};
        state.in_savepoint = state.held_before = false;
        return state;
    }

    State committed(State state) const {
        if (state.in_savepoint)
            state = undone(std::move(state));
        if (state.holder == 0)
            return state;
        state.committed = state.pending;
        rules.settle(state.committed);
        return released(std::move(state));
    }
};

} // namespace chaos::judge
#endif
