// Fields of a JSON object, found and taken with the words that every format uses to refuse them.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>

namespace overlord::columnar {

// "a number", "an object": for messages.
const char* json_type_name(simdjson::dom::element_type type);
std::string wrong_type(const std::string& field, simdjson::dom::element_type type,
                       const char* wanted);

// Finds a top-level field; two of the same name are a fault, since readers differ on which counts.
// What is wrong, or empty.
std::string find_field(const simdjson::dom::object& object, const std::string& name,
                       std::optional<simdjson::dom::element>* found);
// A value of a metadata column; what is wrong with it, or empty.
std::string take_value(const std::string& name, const simdjson::dom::element& element,
                       uint32_t* value);
// The names of the first fields.
std::string field_names(const simdjson::dom::object& object);

}  // namespace overlord::columnar
