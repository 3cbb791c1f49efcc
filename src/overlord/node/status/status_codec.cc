#include "overlord/node/status/status_codec.h"

#include "overlord/protocol/fields/field_codec.h"

namespace overlord::node {
namespace {

template <typename T>
std::string encode(const T& value) {
  ByteWriter writer;
  protocol::FieldWriter fields(&writer);
  fields(value);
  return writer.take();
}

template <typename T>
Result<T> decode(std::string_view bytes, std::string_view what) {
  ByteReader reader(bytes);
  protocol::FieldReader fields(&reader);
  T value;
  fields(value);
  OVERLORD_RETURN_IF_ERROR(fields.status(what));
  return value;
}

template <typename T>
void append(const std::vector<T>& part, std::vector<T>* whole) {
  whole->insert(whole->end(), part.begin(), part.end());
}

// Adds to the line of the same key, or as a line of its own.
template <typename T, typename Key>
void add_line(const T& part, Key T::* key, std::vector<T>* whole) {
  for (T& known : *whole) {
    if (known.*key != part.*key) continue;
    add_counts(part, &known);
    known.*key = part.*key;
    return;
  }
  whole->push_back(part);
}

}  // namespace

std::string encode_engine_status(const EngineStatus& status) { return encode(status); }
Result<EngineStatus> decode_engine_status(std::string_view bytes) {
  return decode<EngineStatus>(bytes, "status of a process");
}
std::string encode_node_status(const NodeStatus& status) { return encode(status); }
Result<NodeStatus> decode_node_status(std::string_view bytes) {
  return decode<NodeStatus>(bytes, "status of a node");
}

void add_constructor(const ConstructorStatus& part, std::vector<ConstructorStatus>* whole) {
  add_line(part, &ConstructorStatus::bucket, whole);
}

void merge_status(const EngineStatus& part, EngineStatus* whole) {
  append(part.loaders, &whole->loaders);
  for (const ConstructorStatus& one : part.constructors) add_constructor(one, &whole->constructors);
  for (const UnpackStatus& one : part.unpacking) {
    add_line(one, &UnpackStatus::source, &whole->unpacking);
  }
  append(part.clients, &whole->clients);
  add_counts(part, whole);  // the planner's too: one process has it, all others 0
}

}  // namespace overlord::node
