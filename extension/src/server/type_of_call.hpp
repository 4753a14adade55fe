// Direct calls of a polymorphic function ("any", anyelement), which reads the argument's type from its call expression.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Sets the type of the first argument. Allocates in the current memory context.
inline void set_argument_type(FmgrInfo *function, Oid type) {
    Param *argument = makeNode(Param);
    argument->paramtype = type;
    argument->paramtypmod = -1;
    FuncExpr *call = makeNode(FuncExpr);
    call->funcid = function->fn_oid;
    call->args = list_make1(argument);
    fmgr_info_set_expr(reinterpret_cast<Node *>(call), function);
}

} // namespace idem
