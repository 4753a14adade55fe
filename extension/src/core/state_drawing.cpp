// StateGraph's two drawings. Nodes are s0, s1 …; a state's name appears as a label only.
#include "core/state_graph.hpp"

namespace idem::core {

namespace {

std::string node(std::size_t number) { return "s" + std::to_string(number); }

// A double-quoted string of the DOT language. In a label, a backslash starts an escape and an ampersand an HTML entity.
std::string dot_string(std::string_view text) {
    std::string quoted = "\"";
    for (char c : text) {
        if (c == '\n')
            quoted += "\\n";
        else if (c == '\r' || c == '\t')
            quoted += ' ';
        else if (c == '&')
            quoted += "&amp;";
        else if (c == '"' || c == '\\')
            (quoted += '\\') += c;
        else
            quoted += c;
    }
    return quoted += '"';
}

bool is_plain_in_mermaid(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == ' ' || c == '_' || c == '-' ||
           c == '.' || c >= 0x80;
}

// Mermaid's quoted strings have no escapes, only numbered entities. Every character that could be syntax becomes an entity.
std::string mermaid_string(std::string_view text) {
    std::string quoted = "\"";
    for (char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '\n')
            quoted += "<br>";
        else if (is_plain_in_mermaid(byte))
            quoted += c;
        else
            quoted += '#' + std::to_string(byte) + ';';
    }
    return quoted += '"';
}

} // namespace

std::string StateGraph::dot(std::string_view title) const {
    std::string out = "digraph " + dot_string(title) + " {\n";
    out += "    rankdir=LR;\n"
           "    node [shape=box, style=\"rounded,filled\", fillcolor=\"#eef3fa\", color=\"#44546a\", fontname=\"Helvetica\"];\n"
           "    edge [color=\"#44546a\"];\n"
           "    start [shape=point, width=0.12, fillcolor=\"#44546a\"];\n";
    for (std::size_t i = 0; i < states_.size(); i++)
        out += "    " + node(i) + " [label=" + dot_string(states_[i].name) +
               (states_[i].next.empty() ? ", peripheries=2];\n" : "];\n");
    for (std::size_t state : initial_)
        out += "    start -> " + node(state) + ";\n";
    for (std::size_t i = 0; i < states_.size(); i++)
        for (std::size_t next : states_[i].next)
            out += "    " + node(i) + " -> " + node(next) + ";\n";
    return out += "}\n";
}

std::string StateGraph::mermaid() const {
    std::string out = "stateDiagram-v2\n";
    for (std::size_t i = 0; i < states_.size(); i++)
        out += "    state " + mermaid_string(states_[i].name) + " as " + node(i) + "\n";
    for (std::size_t state : initial_)
        out += "    [*] --> " + node(state) + "\n";
    for (std::size_t i = 0; i < states_.size(); i++) {
        for (std::size_t next : states_[i].next)
            out += "    " + node(i) + " --> " + node(next) + "\n";
        if (states_[i].next.empty())
            out += "    " + node(i) + " --> [*]\n";
    }
    return out;
}

} // namespace idem::core
