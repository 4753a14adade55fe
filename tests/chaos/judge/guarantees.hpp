#ifndef IDEM_CHAOS_GUARANTEES_HPP
#define IDEM_CHAOS_GUARANTEES_HPP
// One function per guarantee, each in a file of its own. They report what is certainly wrong whatever the order of the calls
// that overlapped; the search of orders.cpp finds the rest.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "index.hpp"

namespace chaos::judge {

// The violations found so far, and the few transactions that show each.
class Findings {
  public:
    Findings(const Index &index, const Limits &limits, Report &report) : index_(index), limits_(limits), report_(report) {}

    // False: enough of this guarantee have been reported, there is no need to make another one presentable.
    bool wants(const std::string &guarantee) const;
    void add(const std::string &guarantee, Kind kind, const std::string &name, const std::string &explanation,
             const std::vector<const Transaction *> &witnesses);
    void add(Violation violation, Kind kind);
    bool reported(Kind kind, const std::string &name) const { return reported_.contains({kind, name}); }

  private:
    const Index &index_;
    const Limits &limits_;
    Report &report_;
    std::map<std::string, std::size_t> counts_;
    std::set<std::pair<Kind, std::string>> reported_;
};

// The history of one name: these transactions with the calls on it alone, and its part of the setup and of the final state.
History excerpt(const History &history, Kind kind, const std::string &name,
                const std::vector<const Transaction *> &transactions);

// "transaction 17 (committed)"
std::string named(const Index &index, const Transaction &transaction);

void check_effects(const Index &index, Findings &findings);
void check_claims(const Index &index, Findings &findings);
void check_replays(const Index &index, Findings &findings);
void check_duplicates(const Index &index, Findings &findings);
void check_fences(const Index &index, Findings &findings);
void check_stale_fences(const Index &index, Findings &findings);
void check_transitions(const Index &index, Findings &findings);
void check_stock(const Index &index, Findings &findings);
void check_publications(const Index &index, Findings &findings);
void check_tokens(const Index &index, Findings &findings);
void check_orders(const Index &index, const Limits &limits, Findings &findings, Report &report);

} // namespace chaos::judge
#endif
