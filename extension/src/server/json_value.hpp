// Values of JSON as values of SQL types.
#pragma once

#include "server/pg.hpp"

namespace idem {

// The JSON value as a value of `type`, converted as jsonb_populate_record does it: json and jsonb take the value itself, arrays
// fill arrays, objects fill composite types, and the text of a string, number or boolean is the input of any other type. JSON's
// null is NULL, which a domain may reject. Allocates in the current memory context. Raises the errors of the type's input.
Datum value_of_json(const JsonbValue &json, Oid type, bool *is_null);

} // namespace idem
