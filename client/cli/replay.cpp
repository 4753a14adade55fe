#include "replay.hpp"

#include <cstdio>

#include "exit_code.hpp"
#include "outcome.hpp"
#include "table.hpp"
#include "usage.hpp"

namespace idem::cli {

namespace {

void write_all(std::FILE *to, const std::optional<stored_output> &output, const char *name, const settings &given) {
    if (!output)
        return;
    if (output->omitted && !given.quiet)
        complain("its " + std::string(name) + " was not stored: " + std::to_string(*output->omitted) +
                 " bytes are over the limit");
    if (std::fwrite(output->bytes.data(), 1, output->bytes.size(), to) != output->bytes.size() || std::fflush(to) != 0)
        throw exit_error(kOutput, "could not write what the command had written to " + std::string(name));
}

} // namespace

int replay(const answer &stored, const std::string &what, const settings &given) {
    const std::optional<stored_run> known = from_answer(stored);
    if (!known)
        throw exit_error(kMismatch, what + " was used before, but not for a command: there is no exit code to repeat");
    if (!given.quiet) {
        std::string note = what + " was run before";
        if (!known->when.empty())
            note += ", until " + printable(known->when);
        if (!known->where.empty())
            note += " on " + printable(known->where);
        complain(note + ": exit code " + std::to_string(known->exit_code));
        if (known->omitted)
            complain("what it wrote was not stored: it is over the scope's limit for responses");
    }
    write_all(stdout, known->out, "stdout", given);
    write_all(stderr, known->err, "stderr", given);
    return known->exit_code;
}

void warn_of_limits(const child_end &end, const settings &given) {
    if (given.quiet)
        return;
    for (const auto &[output, name] : {std::pair{&end.out, "stdout"}, std::pair{&end.err, "stderr"}})
        if (!output->complete())
            complain("the command wrote " + std::to_string(output->size) + " bytes to " + name +
                     ", more than --max-output: it is not stored");
}

} // namespace idem::cli
