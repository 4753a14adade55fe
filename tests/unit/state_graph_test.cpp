#include "core/state_graph.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

namespace idem::core {
namespace {

using Names = std::vector<std::string>;
using Transitions = std::vector<std::pair<std::string, Names>>;

StateGraph graph_of(const Names &initial, const Transitions &transitions, const Names *states = nullptr) {
    StateGraph::Builder builder;
    if (states != nullptr) {
        builder.states_are_listed();
        for (const auto &name : *states)
            builder.state(name);
    }
    for (const auto &name : initial)
        builder.initial(name);
    for (const auto &[from, next] : transitions) {
        builder.transitions(from);
        for (const auto &to : next)
            builder.transition(from, to);
    }
    return builder.build();
}

std::string refusal_of(const Names &initial, const Transitions &transitions, const Names *states = nullptr) {
    try {
        graph_of(initial, transitions, states);
    } catch (const std::invalid_argument &error) {
        return error.what();
    }
    return "";
}

const Transitions kOrder = {{"paid", {"shipped", "refunded"}}, {"created", {"paid", "cancelled"}}, {"shipped", {}}};

TEST(StateGraph, KnowsItsStates) {
    const auto order = graph_of({"created"}, kOrder);
    for (const char *name : {"created", "paid", "cancelled", "shipped", "refunded"})
        EXPECT_TRUE(order.is_state(name)) << name;
    EXPECT_FALSE(order.is_state("Paid"));
    EXPECT_FALSE(order.is_state(""));
    EXPECT_EQ(order.size(), 5u);
}

TEST(StateGraph, KnowsInitialStates) {
    const auto order = graph_of({"paid", "created"}, kOrder);
    EXPECT_TRUE(order.is_initial("created"));
    EXPECT_TRUE(order.is_initial("paid"));
    EXPECT_FALSE(order.is_initial("shipped"));
    EXPECT_FALSE(order.is_initial("nonsense"));
    EXPECT_EQ(order.initial_states(), (Names{"paid", "created"}));
}

// Every pair of names, states or not, against the definition itself.
TEST(StateGraph, CanIsExactlyTheDefinition) {
    const auto order = graph_of({"created"}, kOrder);
    const Names names = {"created", "paid", "cancelled", "shipped", "refunded", "nonsense", ""};
    for (const auto &from : names)
        for (const auto &to : names) {
            bool defined = false;
            for (const auto &[name, next] : kOrder)
                for (const auto &other : next)
                    defined = defined || (name == from && other == to);
            EXPECT_EQ(order.can(from, to), defined) << from << " to " << to;
        }
}

TEST(StateGraph, SelfLoopsAreTransitions) {
    const auto graph = graph_of({"a"}, {{"a", {"a"}}});
    EXPECT_TRUE(graph.can("a", "a"));
    EXPECT_EQ(graph.successors("a"), (Names{"a"}));
}

TEST(StateGraph, SuccessorsAreInTheOrderOfTheDefinition) {
    const auto graph = graph_of({"a"}, {{"a", {"z", "b", "m"}}, {"b", {"a"}}});
    EXPECT_EQ(graph.successors("a"), (Names{"z", "b", "m"}));
    EXPECT_EQ(graph.successors("z"), Names{});
    EXPECT_EQ(graph.successors("nonsense"), Names{});
}

TEST(StateGraph, StatesAreNumberedBreadthFirst) {
    const auto order = graph_of({"created"}, kOrder);
    Names names;
    for (std::size_t i = 0; i < order.size(); i++)
        names.push_back(order.name(i));
    EXPECT_EQ(names, (Names{"created", "paid", "cancelled", "shipped", "refunded"}));
}

TEST(StateGraph, ListedStatesNeedNoTransitions) {
    const Names states = {"a"};
    EXPECT_TRUE(graph_of({"a"}, {}, &states).is_initial("a"));
}

TEST(StateGraph, RefusalsNameTheCulprit) {
    const Names ab = {"a", "b"}, aba = {"a", "b", "a"}, none = {}, abc = {"a", "b", "c"};
    const Transitions a_to_b = {{"a", {"b"}}};
    EXPECT_EQ(refusal_of({}, a_to_b), "machine has no initial state");
    EXPECT_EQ(refusal_of({"a", "a"}, a_to_b), "initial state \"a\" is listed twice");
    EXPECT_EQ(refusal_of({"x"}, a_to_b), "unknown initial state \"x\": neither \"transitions\" nor \"states\" has it");
    EXPECT_EQ(refusal_of({""}, {{"", {"b"}}}), "state must not be empty");
    EXPECT_EQ(refusal_of({"a"}, {{"a", {""}}}), "state must not be empty");
    EXPECT_EQ(refusal_of({"a"}, {{"a", {"b", "b"}}}), "transition from \"a\" to \"b\" is listed twice");
    EXPECT_EQ(refusal_of({"a"}, {{"a", {"b"}}, {"c", {"b"}}}), "state \"c\" cannot be reached from an initial state");
    EXPECT_EQ(refusal_of({"a"}, {{"a", {"b"}}, {"c", {"d"}}, {"d", {"c"}}}),
              "state \"c\" cannot be reached from an initial state");
    EXPECT_EQ(refusal_of({"a"}, a_to_b, &aba), "state \"a\" is listed twice in \"states\"");
    EXPECT_EQ(refusal_of({"a"}, {{"a", {"x"}}}, &ab), "state \"x\" is not in \"states\"");
    EXPECT_EQ(refusal_of({"a"}, a_to_b, &none), "state \"a\" is not in \"states\"");
    EXPECT_EQ(refusal_of({"a"}, a_to_b, &abc), "state \"c\" cannot be reached from an initial state");
    EXPECT_EQ(refusal_of({"a"}, a_to_b, &ab), "");
}

TEST(StateGraph, LongNamesAreCutBetweenCharacters) {
    const std::string euro = "\xE2\x82\xAC";
    std::string name;
    for (int i = 0; i < 60; i++)
        name += euro;
    const std::string refusal = refusal_of({"a"}, {{"a", {"b"}}, {name, {"b"}}});
    EXPECT_NE(refusal.find(name.substr(0, 26 * euro.size()) + "...\""), std::string::npos) << refusal;
    EXPECT_LT(refusal.size(), 256u);
}

TEST(StateGraph, DotDrawing) {
    const std::string dot = graph_of({"a"}, {{"a", {"a", "b"}}}).dot("m");
    EXPECT_EQ(dot.find("digraph \"m\" {\n"), 0u);
    EXPECT_NE(dot.find("    s0 [label=\"a\"];\n    s1 [label=\"b\", peripheries=2];\n"
                       "    start -> s0;\n    s0 -> s0;\n    s0 -> s1;\n}\n"),
              std::string::npos)
        << dot;
}

TEST(StateGraph, DotEscapes) {
    const std::string dot = graph_of({"q\"b\\n\nl<>{}|&amp;ü"}, {{"q\"b\\n\nl<>{}|&amp;ü", {}}}).dot("t\"\\");
    EXPECT_NE(dot.find("[label=\"q\\\"b\\\\n\\nl<>{}|&amp;amp;ü\", peripheries=2]"), std::string::npos) << dot;
    EXPECT_EQ(dot.find("digraph \"t\\\"\\\\\" {"), 0u) << dot;
}

TEST(StateGraph, MermaidDrawing) {
    EXPECT_EQ(graph_of({"a"}, {{"a", {"a", "b"}}}).mermaid(), "stateDiagram-v2\n"
                                                              "    state \"a\" as s0\n"
                                                              "    state \"b\" as s1\n"
                                                              "    [*] --> s0\n"
                                                              "    s0 --> s0\n"
                                                              "    s0 --> s1\n"
                                                              "    s1 --> [*]\n");
}

TEST(StateGraph, MermaidEscapes) {
    const std::string name = "a\"b\\c\nd<>{}|#;:ü";
    EXPECT_NE(
        graph_of({name}, {{name, {}}}).mermaid().find("state \"a#34;b#92;c<br>d#60;#62;#123;#125;#124;#35;#59;#58;ü\" as s0\n"),
        std::string::npos);
}

TEST(QuotedList, Joins) {
    EXPECT_EQ(quoted_list({}), "");
    EXPECT_EQ(quoted_list({"a", "b c"}), "\"a\", \"b c\"");
}

} // namespace
} // namespace idem::core
