// The text of a row with a schema (schema_text.h) out of one parsed JSON object.
#pragma once

#include <simdjson.h>

#include <string>

#include "overlord/model/source.h"

namespace overlord::columnar {

// Appends the text; what is wrong, or empty. After a fault `out` has a part of it.
std::string append_schema_text(const model::Source& source, const simdjson::dom::object& object,
                               std::string* out);

}  // namespace overlord::columnar
