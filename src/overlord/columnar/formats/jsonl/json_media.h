// The paths that a JSON object has in its media fields: a string, or a list of strings and nulls.
#pragma once

#include <simdjson.h>

#include <vector>

#include "overlord/columnar/block_reader.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

NamedMedia json_media(const std::vector<model::MediaField>& fields,
                      const simdjson::dom::object& object);

}  // namespace overlord::columnar
