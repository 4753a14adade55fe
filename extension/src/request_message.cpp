#include "request_message.hpp"

#include "core/canonical_json.hpp"
#include "core/json_text.hpp"
#include "guard.hpp"
#include "utf8.hpp"

namespace idem {

namespace {

constexpr core::Micros kMicrosFrom1970 = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

struct Member {
    std::string_view name;
    JsonbValue value;
};

int by_code_point(const void *left, const void *right) {
    return static_cast<const Member *>(left)->name.compare(static_cast<const Member *>(right)->name);
}

bool is_full(const StringInfoData *out) { return out->len > kMostMessageBytes; }

void append_varlena(StringInfo out, struct varlena *piece) {
    appendBinaryStringInfo(out, VARDATA(piece), static_cast<int>(VARSIZE(piece) - VARHDRSZ));
    pfree(piece);
}

void append_string(StringInfo out, std::string_view utf8) {
    append_varlena(out, core_string([&] { return core::json_string(utf8); }));
}

void append_number(StringInfo out, Numeric number) {
    char *text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(number)));
    const std::string_view decimal = text;
    append_varlena(out, core_string([&] { return core::canonical_number(decimal); }));
    pfree(text);
}

void append_container(StringInfo out, JsonbContainer *container);

void append_value(StringInfo out, const JsonbValue &value) {
    if (is_full(out))
        return; // nobody will see it
    switch (value.type) {
    case jbvString:
        return append_string(out, as_utf8(value.val.string.val, value.val.string.len));
    case jbvNumeric:
        return append_number(out, value.val.numeric);
    case jbvBool:
        return appendStringInfoString(out, value.val.boolean ? "true" : "false");
    case jbvBinary:
        return append_container(out, value.val.binary.data);
    default:
        return appendStringInfoString(out, "null");
    }
}

void append_array(StringInfo out, JsonbIterator *iterator) {
    JsonbValue element;
    const char *separator = "";
    appendStringInfoChar(out, '[');
    while (JsonbIteratorNext(&iterator, &element, true) == WJB_ELEM) {
        appendStringInfoString(out, separator);
        append_value(out, element);
        separator = ",";
    }
    appendStringInfoChar(out, ']');
}

void append_object(StringInfo out, JsonbIterator *iterator, int count) {
    auto *members = static_cast<Member *>(palloc(sizeof(Member) * Max(count, 1)));
    for (int i = 0; i < count; i++) {
        JsonbValue name;
        (void)JsonbIteratorNext(&iterator, &name, true);
        members[i].name = as_utf8(name.val.string.val, name.val.string.len);
        (void)JsonbIteratorNext(&iterator, &members[i].value, true);
    }
    qsort(members, count, sizeof(Member), by_code_point);
    appendStringInfoChar(out, '{');
    for (int i = 0; i < count; i++) {
        if (i > 0)
            appendStringInfoChar(out, ',');
        append_string(out, members[i].name);
        appendStringInfoChar(out, ':');
        append_value(out, members[i].value);
    }
    appendStringInfoChar(out, '}');
}

void append_container(StringInfo out, JsonbContainer *container) {
    check_stack_depth();
    check_for_interrupts();
    JsonbIterator *iterator = JsonbIteratorInit(container);
    JsonbValue value;
    if (JsonbIteratorNext(&iterator, &value, true) == WJB_BEGIN_ARRAY)
        append_array(out, iterator);
    else
        append_object(out, iterator, value.val.object.nPairs);
}

} // namespace

bool can_be_signed(core::Micros signed_at) {
    return IS_VALID_TIMESTAMP(signed_at) && signed_at <= PG_INT64_MAX - kMicrosFrom1970;
}

bool request_message(const SignedRequest &request, StringInfoData *message) {
    StringInfoData &out = *message;
    initStringInfo(&out);
    appendStringInfoString(&out, "[\"idem1\",");
    append_string(&out, as_utf8(request.key_id));
    appendStringInfo(&out, "," INT64_FORMAT ",", request.signed_at + kMicrosFrom1970);
    append_string(&out, as_utf8(request.nonce));
    appendStringInfoChar(&out, ',');
    append_container(&out, &request.params->root);
    appendStringInfoChar(&out, ']');
    return !is_full(&out);
}

} // namespace idem
