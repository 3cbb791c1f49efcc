// The messages of an Arrow IPC shard, stream or file, found by their headers: bodies are stepped
// over. What a record batch's header says of its rows and buffers.
#pragma once

#include <arrow/ipc/dictionary.h>
#include <arrow/type.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

// One stretch of a batch's body, relative to it.
struct BatchBuffer {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

struct BatchHeader {
  uint64_t rows = 0;
  bool compressed = false;
  std::vector<BatchBuffer> buffers;       // of all columns, in the order of the schema
  std::vector<uint64_t> variadic_counts;  // of columns that have as many buffers as they like
};

// A record batch, or a dictionary's batch of values, and where it lies in its shard.
struct BatchMessage {
  uint64_t offset = 0;           // of the message
  uint64_t metadata_offset = 0;  // of its header, behind the prefix
  uint64_t body_offset = 0;
  uint64_t body_bytes = 0;
  std::string_view metadata;  // the header itself; valid during the call
  BatchHeader header;
};

struct ArrowShardVisitor {
  // Once, before the batches; which columns have which dictionaries is in `ids`.
  std::function<Status(const std::shared_ptr<arrow::Schema>& schema,
                       const arrow::ipc::DictionaryFieldMapper& ids)>
      schema;
  std::function<Status(const BatchMessage& batch)> batch;
  // Asked once the schema is known: whether anybody wants dictionaries. Who does not never reads
  // their headers in a file.
  std::function<bool()> wants_dictionaries;
  // Values of a dictionary, before the batches that need them; a delta adds to those before it.
  std::function<Status(const BatchMessage& values, int64_t id, bool is_delta)> dictionary;
};

// Every record batch of the shard in the order that readers give them. The hash of all headers that
// were read. Faults name the offset.
Result<uint64_t> visit_arrow_shard(const ShardJob& job, const ArrowShardVisitor& visitor);

}  // namespace overlord::columnar
