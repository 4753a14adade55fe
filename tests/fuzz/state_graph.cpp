// State machines against a model of sets: which definitions are refused, what a graph answers, and what its drawings say when
// they are read again.
#include "core/state_graph.hpp"

#include "fuzz.hpp"

#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace {

using namespace idem;
using core::StateGraph;
using fuzz::Input;

using Names = std::vector<std::string>;
using Edge = std::pair<std::string, std::string>;

// A definition as it is given, and the questions whose answers follow from it.
struct Model {
    bool listed = false;
    Names list, initial, mentioned; // mentioned: those with a list of transitions
    std::vector<Edge> edges;

    std::set<std::string> states() const {
        std::set<std::string> all(list.begin(), list.end());
        all.insert(initial.begin(), initial.end());
        all.insert(mentioned.begin(), mentioned.end());
        for (const auto &[from, to] : edges)
            all.insert({from, to});
        return all;
    }
    std::set<std::string> reachable() const {
        std::set<std::string> reached(initial.begin(), initial.end());
        for (std::size_t before = 0; before != reached.size();) {
            before = reached.size();
            for (const auto &[from, to] : edges)
                if (reached.contains(from))
                    reached.insert(to);
        }
        return reached;
    }
    Names successors(const std::string &from) const {
        Names names;
        for (const auto &edge : edges)
            if (edge.first == from)
                names.push_back(edge.second);
        return names;
    }
    bool is_known_without_list(const std::string &name) const {
        return std::find(mentioned.begin(), mentioned.end(), name) != mentioned.end() ||
               std::any_of(edges.begin(), edges.end(), [&](const Edge &edge) { return edge.second == name; });
    }
    bool is_good() const {
        const std::set<std::string> known(list.begin(), list.end()), first(initial.begin(), initial.end());
        const std::set<Edge> different(edges.begin(), edges.end());
        if (states().contains("") || initial.empty() || known.size() != list.size() || first.size() != initial.size() ||
            different.size() != edges.size() || reachable() != states())
            return false;
        if (listed)
            return known == states();
        return std::all_of(initial.begin(), initial.end(), [&](const auto &name) { return is_known_without_list(name); });
    }
};

// --- A definition from bytes ---------------------------------------------------------------------------------------------

// Mostly one of few, so that they meet again; else any bytes, also with what drawings take for syntax.
std::string name_from(Input &input) {
    static constexpr std::string_view kNames[] = {"a",       "b",    "c",      "d",    "e",        "\"", "\\",
                                                  "--> [*]", "&lt;", "\n\r\t", "#35;", "\xC3\xA9", ""};
    const std::size_t choice = input.number<std::uint8_t>() % 16;
    if (choice < std::size(kNames))
        return std::string(kNames[choice]);
    return std::string(input.text(100));
}

std::pair<Model, StateGraph::Builder> definition_from(Input &input) {
    Model model;
    StateGraph::Builder builder;
    while (!input.empty()) {
        switch (input.number<std::uint8_t>() % 8) {
        case 0:
            model.listed = true;
            builder.states_are_listed();
            break;
        case 1:
            // As the server feeds it: members of a list that is there.
            model.listed = true;
            builder.states_are_listed();
            builder.state(model.list.emplace_back(name_from(input)));
            break;
        case 2:
            builder.initial(model.initial.emplace_back(name_from(input)));
            break;
        case 3:
            builder.transitions(model.mentioned.emplace_back(name_from(input)));
            break;
        default: {
            Edge edge;
            edge.first = name_from(input);
            edge.second = name_from(input);
            model.mentioned.push_back(edge.first);
            builder.transitions(edge.first);
            builder.transition(edge.first, edge.second);
            model.edges.push_back(edge);
        }
        }
    }
    return {model, builder};
}

// --- What a graph answers ------------------------------------------------------------------------------------------------

void check_answers(const StateGraph &graph, const Model &model, std::string_view stranger) {
    const std::set<std::string> states = model.states();
    const std::set<Edge> edges(model.edges.begin(), model.edges.end());
    const std::set<std::string> initial(model.initial.begin(), model.initial.end());
    REQUIRE(graph.size() == states.size());
    REQUIRE(graph.initial_states() == model.initial);
    std::set<std::string> named;
    for (std::size_t i = 0; i < graph.size(); i++)
        named.insert(graph.name(i));
    REQUIRE(named == states);

    std::set<std::string> asked = states;
    asked.insert(std::string(stranger));
    for (const auto &from : asked) {
        REQUIRE(graph.is_state(from) == states.contains(from));
        REQUIRE(graph.is_initial(from) == initial.contains(from));
        REQUIRE(graph.successors(from) == model.successors(from));
        for (const auto &to : asked)
            REQUIRE(graph.can(from, to) == edges.contains({from, to}));
    }
}

// Breadth first: a state's number is less than that of all that are farther from the initial ones.
void check_order(const StateGraph &graph, const Model &model) {
    std::set<std::string> reached(model.initial.begin(), model.initial.end()), before;
    std::size_t number = 0;
    while (reached != before) {
        std::set<std::string> layer, expected;
        std::set_difference(reached.begin(), reached.end(), before.begin(), before.end(),
                            std::inserter(expected, expected.end()));
        while (layer.size() < expected.size())
            layer.insert(graph.name(number++));
        REQUIRE(layer == expected);
        before = reached;
        for (const auto &[from, to] : model.edges)
            if (before.contains(from))
                reached.insert(to);
    }
    REQUIRE(number == graph.size());
}

// --- What a drawing says -------------------------------------------------------------------------------------------------

struct Drawing {
    std::map<std::size_t, std::string> labels;
    std::multiset<std::size_t> entered, left;
    std::multiset<std::pair<std::size_t, std::size_t>> arrows;

    bool operator==(const Drawing &) const = default;
};

// What the drawing of a graph has to say, with labels as they can be written.
template <typename Label> Drawing drawing_of(const StateGraph &graph, Label &&label) {
    Drawing drawing;
    std::map<std::string, std::size_t> numbers;
    for (std::size_t i = 0; i < graph.size(); i++) {
        numbers[graph.name(i)] = i;
        drawing.labels[i] = label(graph.name(i));
    }
    for (const auto &[name, number] : numbers) {
        if (graph.is_initial(name))
            drawing.entered.insert(number);
        if (graph.successors(name).empty())
            drawing.left.insert(number);
        for (const auto &next : graph.successors(name))
            drawing.arrows.insert({number, numbers.at(next)});
    }
    return drawing;
}

// Takes a text apart from the left. Whatever is not there as asked for fails.
class Reader {
  public:
    explicit Reader(std::string_view text) : rest_(text) {}

    bool at_end() const { return rest_.empty(); }
    bool accept(std::string_view word) {
        if (!rest_.starts_with(word))
            return false;
        rest_.remove_prefix(word.size());
        return true;
    }
    void expect(std::string_view word) { REQUIRE(accept(word)); }
    char next() {
        REQUIRE(!rest_.empty());
        const char c = rest_.front();
        rest_.remove_prefix(1);
        return c;
    }
    std::size_t node() {
        expect("s");
        std::size_t number = 0, digits = 0;
        for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; digits++)
            number = number * 10 + static_cast<std::size_t>(next() - '0');
        REQUIRE(digits > 0);
        return number;
    }

  private:
    std::string_view rest_;
};

// DOT's double-quoted string: only \" is an escape to the language; \\ and \n are to labels, and so are entities.
std::string read_dot_string(Reader &reader) {
    reader.expect("\"");
    std::string text;
    for (char c; (c = reader.next()) != '"';) {
        REQUIRE(c != '\n' && c != '\r');
        if (c == '\\') {
            c = reader.next();
            REQUIRE(c == '"' || c == '\\' || c == 'n');
            text += c == 'n' ? '\n' : c;
        } else if (c == '&') {
            reader.expect("amp;");
            text += '&';
        } else {
            text += c;
        }
    }
    return text;
}

std::string dot_label(const std::string &name) {
    std::string label = name;
    for (char &c : label)
        if (c == '\r' || c == '\t')
            c = ' ';
    return label;
}

void check_dot(const StateGraph &graph, const std::string &title) {
    const std::string text = graph.dot(title);
    Reader reader(text);
    reader.expect("digraph ");
    REQUIRE(read_dot_string(reader) == dot_label(title));
    reader.expect(" {\n");
    Drawing drawn;
    while (!reader.accept("}\n")) {
        reader.expect("    ");
        if (reader.accept("rankdir=") || reader.accept("node [") || reader.accept("edge [") || reader.accept("start [")) {
            while (reader.next() != '\n')
                ;
        } else if (reader.accept("start -> ")) {
            drawn.entered.insert(reader.node());
            reader.expect(";\n");
        } else {
            const std::size_t node = reader.node();
            if (reader.accept(" -> ")) {
                drawn.arrows.insert({node, reader.node()});
                reader.expect(";\n");
                continue;
            }
            reader.expect(" [label=");
            REQUIRE(drawn.labels.emplace(node, read_dot_string(reader)).second);
            if (reader.accept(", peripheries=2"))
                drawn.left.insert(node);
            reader.expect("];\n");
        }
    }
    REQUIRE(reader.at_end());
    REQUIRE(drawn == drawing_of(graph, dot_label));
}

// Mermaid's entities are numbers between # and a semicolon.
std::string read_mermaid_string(Reader &reader) {
    reader.expect("\"");
    std::string text;
    for (char c; (c = reader.next()) != '"';) {
        REQUIRE(std::string_view(";:{}[]()|&\\'`%*/=+\n\r\t\0", 22).find(c) == std::string_view::npos);
        if (c == '<') {
            reader.expect("br>");
            text += '\n';
        } else if (c == '#') {
            unsigned number = 0;
            for (c = reader.next(); c != ';'; c = reader.next()) {
                REQUIRE(c >= '0' && c <= '9' && number < 256);
                number = number * 10 + static_cast<unsigned>(c - '0');
            }
            REQUIRE(number < 0x80);
            text += static_cast<char>(number);
        } else {
            text += c;
        }
    }
    return text;
}

void check_mermaid(const StateGraph &graph) {
    const std::string text = graph.mermaid();
    Reader reader(text);
    reader.expect("stateDiagram-v2\n");
    Drawing drawn;
    while (!reader.at_end()) {
        reader.expect("    ");
        if (reader.accept("state ")) {
            const std::string label = read_mermaid_string(reader);
            reader.expect(" as ");
            REQUIRE(drawn.labels.emplace(reader.node(), label).second);
        } else if (reader.accept("[*] --> ")) {
            drawn.entered.insert(reader.node());
        } else {
            const std::size_t node = reader.node();
            reader.expect(" --> ");
            if (reader.accept("[*]"))
                drawn.left.insert(node);
            else
                drawn.arrows.insert({node, reader.node()});
        }
        reader.expect("\n");
    }
    REQUIRE(drawn == drawing_of(graph, [](const std::string &name) { return name; }));
}

} // namespace

FUZZ_TARGET(input) {
    const std::string title = name_from(input), stranger = name_from(input);
    const auto [model, builder] = definition_from(input);
    try {
        const StateGraph graph = builder.build();
        REQUIRE(model.is_good());
        check_answers(graph, model, stranger);
        check_order(graph, model);
        check_dot(graph, title);
        check_mermaid(graph);
    } catch (const std::invalid_argument &refused) {
        REQUIRE(!model.is_good());
        REQUIRE(std::string_view(refused.what()).size() < 256); // what a message has room for
    }
}
