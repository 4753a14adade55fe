// Runs a flow through the proxy and breaks the connection at every message of it, one after the other, many times each.
#pragma once

#include <functional>
#include <string>

#include <idem/client.hpp>

#include "proxy.hpp"

namespace test {

/// A whole flow under this key, to be run on a client of the proxy's. It asserts what must hold whatever happened on the way:
/// `calm` says that nothing has.
using flow = std::function<void(idem::client &through, const std::string &key, bool calm)>;

struct cut_options {
    /// True: the client has run the flow before, so that it is connected and has prepared its statements. False: each run is a
    /// client's first, and its connecting is part of the flow.
    bool warm = true;
    /// As in `cut`.
    std::chrono::milliseconds unnoticed{0};
    /// Whether the flow always gets as far as it does when calm; else a run may end without the cut.
    bool whole = true;
    /// Of the client's connections, for who looks for them in the server; empty: the library's.
    std::string application_name;
    /// Of the client; the connection string is put in.
    idem::client_options client;
};

/// How often each point is cut: IDEM_CUT_REPETITIONS, else once.
int cut_repetitions();

/// A retry policy that does not make a test wait.
idem::retry_policy swift();

/// Counts the messages of a calm run, then runs the flow with a cut before and after each of them. A run without the cut
/// fails, if the flow is whole. Prints how many points there were.
void at_every_cut_point(const flow &run, const cut_options &options = {});

} // namespace test
