#include "server/transaction_block.hpp"

namespace idem {

namespace {

// The last such call of this transaction, if there was one.
struct LastCall {
    const char *function; // nullptr: none
    const char *hint;
    TimestampTz statement;
    XLogRecPtr wal_end;
};
LastCall last_call;

// The executor state of the portal's SELECT allocates what belongs to the functions that the SELECT itself calls. What an SQL
// function inlines into it counts as its own. Data-modifying CTEs have another strategy.
bool is_named_by_top_select(FunctionCallInfo fcinfo) {
    return ActivePortal != nullptr && ActivePortal->strategy == PORTAL_ONE_SELECT && ActivePortal->queryDesc != nullptr &&
           ActivePortal->queryDesc->estate != nullptr &&
           ActivePortal->queryDesc->estate->es_query_cxt == fcinfo->flinfo->fn_mcxt;
}

// In a pipeline, statements before this one are part of its transaction.
bool is_first_statement() { return (MyXactFlags & XACT_FLAGS_PIPELINING) == 0; }

void refuse_without_work() {
    if (last_call.function != nullptr && last_call.statement == GetCurrentStatementStartTimestamp() &&
        last_call.wal_end == XactLastRecEnd)
        ereport(ERROR, (errcode(ERRCODE_NO_ACTIVE_SQL_TRANSACTION),
                        errmsg("%s can only be used in transaction blocks", last_call.function),
                        errdetail("Its effect would have ended with this statement, before the work. The call was undone."),
                        errhint("%s", last_call.hint)));
}

void at_transaction_event(XactEvent event, void *) {
    if (event == XACT_EVENT_PRE_COMMIT)
        refuse_without_work();
    else if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
        last_call.function = nullptr;
}

} // namespace

void expect_work_after(FunctionCallInfo fcinfo, const char *function, const char *hint) {
    if (!IsTransactionBlock() && is_first_statement() && is_named_by_top_select(fcinfo))
        last_call = {function, hint, GetCurrentStatementStartTimestamp(), XactLastRecEnd};
}

void transaction_block_initialize() { RegisterXactCallback(at_transaction_event, nullptr); }

} // namespace idem
