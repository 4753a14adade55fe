#include "figures.hpp"

#include <ostream>
#include <unordered_set>

namespace chaos {

void Figures::add(const History &history) {
    std::unordered_set<std::uint64_t> took_effect;
    for (const Effect &effect : history.final_state.effects)
        took_effect.insert(effect.transaction);
    for (const Transaction &each : history.transactions) {
        transactions++;
        calls += each.steps.size();
        committed += each.fate == Fate::committed;
        aborted += each.fate == Fate::aborted;
        prepared += each.prepared;
        if (each.fate == Fate::unknown) {
            unknown++;
            if (took_effect.contains(each.id))
                unknown_committed++;
            else
                unknown_undone += !each.effects.empty();
        }
        for (const Step &step : each.steps) {
            taken_over += step.outcome == "taken_over";
            stale_fences += step.sqlstate == "ID001";
            serialization_failures += step.sqlstate == "40001";
            deadlocks += step.sqlstate == "40P01";
            canceled += step.sqlstate == "57014";
        }
    }
}

std::ostream &operator<<(std::ostream &out, const Figures &figures) {
    return out << figures.transactions << " transactions (" << figures.committed << " committed, " << figures.aborted
               << " undone, " << figures.prepared << " prepared), " << figures.calls << " calls, " << figures.taken_over
               << " takeovers, " << figures.stale_fences << " stale fences, " << figures.serialization_failures << " 40001, "
               << figures.deadlocks << " 40P01, " << figures.canceled << " 57014; commits without a reply: " << figures.unknown
               << " (" << figures.unknown_committed << " took effect, " << figures.unknown_undone << " did not, "
               << figures.unknown - figures.unknown_committed - figures.unknown_undone
               << " left no trace); nemesis: " << figures.crashes << " server kills, " << figures.backend_kills
               << " backend kills, " << figures.terminations << " terminations, " << figures.cancels << " cancels, "
               << figures.cuts << " cuts, " << figures.checkpoints << " checkpoints, " << figures.vacuums << " vacuums, "
               << figures.rotations << " rotations, " << figures.moves << " scopes moved; " << figures.violations
               << " violations, " << figures.undecided << " undecided";
}

} // namespace chaos
