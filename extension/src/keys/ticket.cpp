#include "keys/ticket.hpp"

#include "core/duration.hpp"
#include "keys/key_types.hpp"

namespace idem {

namespace {

// Columns of the type, in order.
struct TicketColumn {
    enum { outcome, fence, attempt, lease_until, status_code, response, response_omitted, steps, retry_after_ms, count };
};

struct Ticket {
    Datum values[TicketColumn::count] = {};
    bool nulls[TicketColumn::count];

    explicit Ticket(core::Outcome outcome) {
        memset(nulls, true, sizeof nulls);
        set(TicketColumn::outcome, outcome_datum(outcome));
    }
    void set(int column, Datum value) {
        values[column] = value;
        nulls[column] = false;
    }
    void copy(int column, const KeyRow &row, AttrNumber from) {
        if (!row.is_null(from))
            set(column, row.get(from));
    }
};

// Sets the columns that the outcome shows. The holder gets its credentials and progress, a duplicate gets the response, and
// other callers get only the attempt and its lease.
void show(Ticket *ticket, const Claimed &claimed) {
    const KeyRow &row = claimed.row;
    switch (claimed.outcome) {
    case core::Outcome::acquired:
    case core::Outcome::taken_over:
        ticket->copy(TicketColumn::fence, row, KeyColumn::fence);
        ticket->copy(TicketColumn::attempt, row, KeyColumn::attempt);
        ticket->copy(TicketColumn::lease_until, row, KeyColumn::lease_until);
        ticket->copy(TicketColumn::steps, row, KeyColumn::steps);
        break;
    case core::Outcome::completed:
        ticket->copy(TicketColumn::attempt, row, KeyColumn::attempt);
        ticket->copy(TicketColumn::status_code, row, KeyColumn::status_code);
        ticket->copy(TicketColumn::response, row, KeyColumn::response);
        ticket->set(TicketColumn::response_omitted, BoolGetDatum(!row.is_null(KeyColumn::response_omitted)));
        break;
    case core::Outcome::in_flight:
        ticket->set(TicketColumn::retry_after_ms,
                    Int32GetDatum(core::milliseconds(Max(row.time(KeyColumn::lease_until) - claimed.at, core::Micros{0}))));
        [[fallthrough]];
    case core::Outcome::in_doubt:
        ticket->copy(TicketColumn::attempt, row, KeyColumn::attempt);
        ticket->copy(TicketColumn::lease_until, row, KeyColumn::lease_until);
        break;
    case core::Outcome::mismatch:
        break;
    }
}

Datum composite_of(FunctionCallInfo fcinfo, const Ticket &ticket) {
    static_assert(ticket_type.count == TicketColumn::count);
    return make_composite(fcinfo, ticket_type, ticket.values, ticket.nulls);
}

} // namespace

Datum make_ticket(FunctionCallInfo fcinfo, const Claimed &claimed) {
    Ticket ticket(claimed.outcome);
    if (claimed.has_row)
        show(&ticket, claimed);
    return composite_of(fcinfo, ticket);
}

Datum make_ticket(FunctionCallInfo fcinfo, const Claimed &claimed, const Jsonb *response, bool omitted) {
    Ticket ticket(claimed.outcome);
    show(&ticket, claimed);
    ticket.set(TicketColumn::response, PointerGetDatum(response));
    ticket.set(TicketColumn::response_omitted, BoolGetDatum(omitted));
    return composite_of(fcinfo, ticket);
}

} // namespace idem
