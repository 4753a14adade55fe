#include "requests/request_message.hpp"

#include "core/canonical_json.hpp"
#include "core/json_text.hpp"
#include "server/arguments.hpp"
#include "server/guard.hpp"
#include "server/utf8.hpp"

namespace idem {

namespace {

struct JsonMember {
    std::string_view name;
    JsonbValue value;
};

int by_code_point(const void *left, const void *right) {
    return static_cast<const JsonMember *>(left)->name.compare(static_cast<const JsonMember *>(right)->name);
}

// Writes a message. After a fault, nothing more is written, and the message is not used.
struct Writer {
    StringInfo out;
    MessageFault fault;

    bool is_ok() const { return fault == MessageFault::none; }
};

void append_varlena(StringInfo out, struct varlena *piece) {
    appendBinaryStringInfo(out, VARDATA(piece), static_cast<int>(VARSIZE(piece) - VARHDRSZ));
    pfree(piece);
}

// The text in UTF-8. A text that is too long by itself is not converted.
bool read_text(Writer *writer, const char *data, Size size, std::string_view *utf8) {
    if (size > kMaxMessageBytes)
        writer->fault = MessageFault::too_large;
    else if (!find_utf8(data, static_cast<int>(size), utf8))
        writer->fault = MessageFault::no_text;
    return writer->is_ok();
}

void append_string(Writer *writer, std::string_view utf8) {
    append_varlena(writer->out, core_string([&] { return core::json_string(utf8); }));
}

void append_text(Writer *writer, const char *data, Size size) {
    std::string_view utf8;
    if (read_text(writer, data, size, &utf8))
        append_string(writer, utf8);
}

void append_number(StringInfo out, Numeric number) {
    char *text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(number)));
    const std::string_view decimal = text;
    append_varlena(out, core_string([&] { return core::canonical_number(decimal); }));
    pfree(text);
}

void append_container(Writer *writer, JsonbContainer *container, int depth);

void append_value(Writer *writer, const JsonbValue &value, int depth) {
    if (writer->is_ok() && writer->out->len > kMaxMessageBytes)
        writer->fault = MessageFault::too_large;
    if (!writer->is_ok())
        return;
    switch (value.type) {
    case jbvString:
        return append_text(writer, value.val.string.val, value.val.string.len);
    case jbvNumeric:
        return append_number(writer->out, value.val.numeric);
    case jbvBool:
        return appendStringInfoString(writer->out, value.val.boolean ? "true" : "false");
    case jbvBinary:
        return append_container(writer, value.val.binary.data, depth + 1);
    default:
        return appendStringInfoString(writer->out, "null");
    }
}

void append_array(Writer *writer, JsonbIterator *iterator, int depth) {
    JsonbValue element;
    const char *separator = "";
    appendStringInfoChar(writer->out, '[');
    while (JsonbIteratorNext(&iterator, &element, true) == WJB_ELEM) {
        appendStringInfoString(writer->out, separator);
        append_value(writer, element, depth);
        separator = ",";
    }
    appendStringInfoChar(writer->out, ']');
}

void append_object(Writer *writer, JsonbIterator *iterator, int count, int depth) {
    // A member takes at least five bytes. Without this check, the sender would choose how much memory is allocated.
    if (count > kMaxMessageBytes / 5) {
        writer->fault = MessageFault::too_large;
        return;
    }
    auto *members = static_cast<JsonMember *>(palloc(sizeof(JsonMember) * Max(count, 1)));
    for (int i = 0; i < count; i++) {
        JsonbValue name;
        (void)JsonbIteratorNext(&iterator, &name, true);
        if (!read_text(writer, name.val.string.val, name.val.string.len, &members[i].name))
            return;
        (void)JsonbIteratorNext(&iterator, &members[i].value, true);
    }
    qsort(members, count, sizeof(JsonMember), by_code_point);
    appendStringInfoChar(writer->out, '{');
    for (int i = 0; i < count && writer->is_ok(); i++) {
        if (i > 0)
            appendStringInfoChar(writer->out, ',');
        append_string(writer, members[i].name);
        appendStringInfoChar(writer->out, ':');
        append_value(writer, members[i].value, depth);
    }
    appendStringInfoChar(writer->out, '}');
}

void append_container(Writer *writer, JsonbContainer *container, int depth) {
    if (depth > kMaxParamsDepth) {
        writer->fault = MessageFault::too_deep;
        return;
    }
    check_for_interrupts();
    JsonbIterator *iterator = JsonbIteratorInit(container);
    JsonbValue value;
    if (JsonbIteratorNext(&iterator, &value, true) == WJB_BEGIN_ARRAY)
        append_array(writer, iterator, depth);
    else
        append_object(writer, iterator, value.val.object.nPairs, depth);
}

} // namespace

bool can_be_signed(core::Micros signed_at) {
    return IS_VALID_TIMESTAMP(signed_at) && signed_at <= PG_INT64_MAX - kMicrosFrom1970;
}

MessageFault request_message(const SignedRequest &request, StringInfoData *message) {
    Writer writer{message, MessageFault::none};
    initStringInfo(message);
    appendStringInfoString(message, "[\"idem1\",");
    append_text(&writer, VARDATA_ANY(request.key_id), VARSIZE_ANY_EXHDR(request.key_id));
    appendStringInfo(message, "," INT64_FORMAT ",", request.signed_at + kMicrosFrom1970);
    append_text(&writer, VARDATA_ANY(request.nonce), VARSIZE_ANY_EXHDR(request.nonce));
    appendStringInfoChar(message, ',');
    if (writer.is_ok())
        append_container(&writer, &request.params->root, 1);
    appendStringInfoChar(message, ']');
    return writer.is_ok() && message->len > kMaxMessageBytes ? MessageFault::too_large : writer.fault;
}

} // namespace idem
