#include "machines/machine.hpp"

#include "machines/machine_definition.hpp"
#include "rows/row_name.hpp"
#include "server/arguments.hpp"
#include "server/compat.hpp"
#include "server/errors.hpp"
#include "server/guard.hpp"

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

namespace idem {

namespace {

struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const noexcept { return std::hash<std::string_view>{}(name); }
};

constexpr Column kColumns[] = {{"name", TEXTOID}, {"definition", JSONBOID}};

} // namespace

constinit Member machines_table = member_table("idem_machines", kColumns, 1, InvalidAttrNumber, kAnyChecks);

namespace {

// The graphs that this backend has read, on the C++ heap. Any change of a definition removes all of them, as such changes are
// rare.
using Graphs = std::unordered_map<std::string, std::unique_ptr<core::StateGraph>, NameHash, std::equal_to<>>;

constexpr size_t kMaxGraphs = 1024;

constinit Graphs *graphs = nullptr;
constinit uint64 graphs_generation = 0;

void forget_graphs_if_stale() {
    const uint64 now = generation_of(machines_table);
    if (graphs != nullptr && graphs_generation == now && graphs->size() < kMaxGraphs)
        return;
    // The generation is taken first: after a change that arrives while a definition is read, the next call reads it again.
    graphs_generation = now;
    call_core([] {
        if (graphs == nullptr)
            graphs = new Graphs;
        graphs->clear();
        return 0;
    });
}

[[noreturn]] void raise_no_machine(const char *name) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("state machine \"%s\" does not exist", name),
                    errhint("Define it with idem_machine_define.")));
    pg_unreachable();
}

// Reads the table as it is now, as catalogs are read, and not as of the transaction's snapshot.
Jsonb *stored_definition(const char *name) {
    Relation table = open_member(machines_table, AccessShareLock);
    const Oid index = compat_primary_key(table);
    ScanKeyData entry;
    ScanKeyInit(&entry, 1, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(name));
    SysScanDesc scan = systable_beginscan(table, index, OidIsValid(index), nullptr, 1, &entry);
    HeapTuple row = systable_getnext(scan);
    Jsonb *definition = nullptr;
    if (HeapTupleIsValid(row)) {
        bool is_null;
        definition = DatumGetJsonbPCopy(heap_getattr(row, 2, RelationGetDescr(table), &is_null));
    }
    systable_endscan(scan);
    table_close(table, AccessShareLock);
    return definition;
}

const core::StateGraph *read_graph(const char *name) {
    Jsonb *json = stored_definition(name);
    if (json == nullptr)
        raise_no_machine(name);
    const Definition definition = read_definition(json);
    return call_core([&]() -> const core::StateGraph * {
        auto graph = std::make_unique<core::StateGraph>(graph_of(definition));
        auto &entry = (*graphs)[name];
        entry = std::move(graph);
        return entry.get();
    });
}

char *reachable_from(const core::StateGraph &graph, const char *machine, const char *from) {
    if (from == nullptr)
        return pstrdup("The row has no state.");
    if (!graph.is_state(from))
        return psprintf("State machine \"%s\" has no state \"%s\".", machine, from);
    const text *list = core_string([&] { return core::quoted_list(graph.successors(from)); });
    if (VARSIZE(list) == VARHDRSZ)
        return psprintf("State machine \"%s\" ends in \"%s\".", machine, from);
    return psprintf("From \"%s\", state machine \"%s\" can reach: %s.", from, machine, text_to_cstring(list));
}

char *quoted_or_null(const char *state) { return state == nullptr ? pstrdup("null") : psprintf("\"%s\"", state); }

} // namespace

char *machine_argument(FunctionCallInfo fcinfo, int arg) {
    const text *name = required_text(fcinfo, arg, "machine");
    const auto bytes = VARSIZE_ANY_EXHDR(name);
    if (bytes == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("name of a state machine must not be empty")));
    if (bytes > kMaxMachineBytes)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("name of a state machine is too long"),
                        errdetail("The name has %zu bytes; the most is %d.", static_cast<size_t>(bytes), kMaxMachineBytes)));
    return text_to_cstring(name);
}

const core::StateGraph &machine_graph(const char *name) {
    forget_graphs_if_stale();
    const auto found = graphs->find(std::string_view(name));
    return found != graphs->end() ? *found->second : *read_graph(name);
}

StateNames state_names(const core::StateGraph &graph) {
    StateNames states{static_cast<int>(graph.size()), nullptr};
    states.names = static_cast<const char **>(palloc(sizeof(char *) * states.count));
    for (int i = 0; i < states.count; i++)
        states.names[i] = pstrdup(graph.name(i).c_str());
    return states;
}

void raise_transition_not_allowed(const char *machine, const char *from, const char *to, Relation table, AttrNumber column,
                                  HeapTuple row) {
    const char *detail = reachable_from(machine_graph(machine), machine, from);
    ereport(ERROR, (errcode(ERRCODE_IDEM_TRANSITION_NOT_ALLOWED),
                    errmsg("transition from %s to %s is not allowed", quoted_or_null(from), quoted_or_null(to)),
                    errdetail_internal("%s%s", detail, row != nullptr ? row_name(table, row) : ""),
                    table != nullptr ? errtablecol(table, column) : 0));
    pg_unreachable();
}

void raise_not_initial(const char *machine, const char *state, Relation table, AttrNumber column, HeapTuple row) {
    const core::StateGraph &graph = machine_graph(machine);
    const text *list = core_string([&] { return core::quoted_list(graph.initial_states()); });
    ereport(ERROR, (errcode(ERRCODE_IDEM_TRANSITION_NOT_ALLOWED),
                    state == nullptr ? errmsg("state of a new row must not be null")
                                     : errmsg("state \"%s\" is not an initial state", state),
                    errdetail("State machine \"%s\" starts in: %s.%s", machine, text_to_cstring(list), row_name(table, row)),
                    errtablecol(table, column)));
    pg_unreachable();
}

} // namespace idem

SQL_FUNCTION(idem_can_transition) {
    using namespace idem;
    const char *machine = machine_argument(fcinfo, 0);
    const char *from = text_to_cstring(required_text(fcinfo, 1, "from_state"));
    const char *to = text_to_cstring(required_text(fcinfo, 2, "to_state"));
    PG_RETURN_BOOL(machine_graph(machine).can(from, to));
}

SQL_FUNCTION(idem_check_transition) {
    using namespace idem;
    const char *machine = machine_argument(fcinfo, 0);
    const char *from = text_to_cstring(required_text(fcinfo, 1, "from_state"));
    const char *to = text_to_cstring(required_text(fcinfo, 2, "to_state"));
    if (!machine_graph(machine).can(from, to))
        raise_transition_not_allowed(machine, from, to);
    PG_RETURN_BOOL(true);
}

SQL_FUNCTION(idem_machine_dot) {
    using namespace idem;
    const char *machine = machine_argument(fcinfo, 0);
    const core::StateGraph &graph = machine_graph(machine);
    PG_RETURN_TEXT_P(core_string([&] { return graph.dot(machine); }));
}

SQL_FUNCTION(idem_machine_mermaid) {
    using namespace idem;
    const core::StateGraph &graph = machine_graph(machine_argument(fcinfo, 0));
    PG_RETURN_TEXT_P(core_string([&] { return graph.mermaid(); }));
}
