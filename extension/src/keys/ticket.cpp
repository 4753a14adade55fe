#include "keys/ticket.hpp"

#include "keys/key_types.hpp"

namespace idem {

namespace {

// Columns of the type, in order.
enum TicketColumn {
    outcome,
    fence,
    attempt,
    lease_until,
    status_code,
    response,
    response_omitted,
    recovery_point,
    retry_after,
    columns
};

struct Ticket {
    Datum values[columns] = {};
    bool nulls[columns];

    explicit Ticket(core::Outcome answer) {
        memset(nulls, true, sizeof nulls);
        set(outcome, outcome_datum(answer));
    }
    void set(TicketColumn column, Datum value) {
        values[column] = value;
        nulls[column] = false;
    }
    void copy(TicketColumn column, const KeyRow &row, AttrNumber from) {
        if (!row.is_null(from))
            set(column, row.get(from));
    }
};

// Which columns an outcome shows: credentials and progress to the holder, the response to a duplicate, and of somebody
// else's running attempt only how long it may take.
void show(Ticket *ticket, const Claimed &claimed) {
    const KeyRow &row = claimed.row;
    switch (claimed.outcome) {
    case core::Outcome::acquired:
    case core::Outcome::taken_over:
        ticket->copy(fence, row, KeyColumn::fence);
        ticket->copy(attempt, row, KeyColumn::attempt);
        ticket->copy(lease_until, row, KeyColumn::lease_until);
        ticket->copy(recovery_point, row, KeyColumn::recovery_point);
        break;
    case core::Outcome::completed:
        ticket->copy(attempt, row, KeyColumn::attempt);
        ticket->copy(status_code, row, KeyColumn::status_code);
        ticket->copy(response, row, KeyColumn::response);
        ticket->set(response_omitted, BoolGetDatum(!row.is_null(KeyColumn::response_omitted)));
        break;
    case core::Outcome::in_flight:
        ticket->set(retry_after, interval_of(Max(row.time(KeyColumn::lease_until) - claimed.at, core::Micros{0})));
        [[fallthrough]];
    case core::Outcome::in_doubt:
        ticket->copy(attempt, row, KeyColumn::attempt);
        ticket->copy(lease_until, row, KeyColumn::lease_until);
        break;
    case core::Outcome::mismatch:
        break;
    }
}

Datum composite_of(const Ticket &ticket) {
    Assert(ticket_type.count == columns);
    return make_composite(ticket_type, ticket.values, ticket.nulls);
}

} // namespace

Datum interval_of(core::Micros span) {
    auto *interval = static_cast<Interval *>(palloc0(sizeof(Interval)));
    interval->time = span;
    return IntervalPGetDatum(interval);
}

Datum make_ticket(const Claimed &claimed) {
    Ticket ticket(claimed.outcome);
    if (claimed.has_row)
        show(&ticket, claimed);
    return composite_of(ticket);
}

Datum make_ticket(const Claimed &claimed, const Jsonb *given, bool omitted) {
    Ticket ticket(claimed.outcome);
    show(&ticket, claimed);
    ticket.set(response, PointerGetDatum(given));
    ticket.set(response_omitted, BoolGetDatum(omitted));
    return composite_of(ticket);
}

} // namespace idem
