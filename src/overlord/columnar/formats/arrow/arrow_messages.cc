#include "overlord/columnar/formats/arrow/arrow_messages.h"

#include <arrow/buffer.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/util/endian.h>

#include <algorithm>
#include <optional>
#include <string>

#include "overlord/base/bytes.h"
#include "overlord/base/hash.h"
#include "overlord/columnar/formats/arrow/flat_table.h"

namespace overlord::columnar {
namespace {

constexpr std::string_view kMagic = "ARROW1";
constexpr uint64_t kFileHeadBytes = 8;     // magic and padding
constexpr uint64_t kTrailerBytes = 10;     // footer length and magic
constexpr uint64_t kGuessBytes = 4 << 10;  // most headers fit
constexpr uint64_t kMaxMetadataBytes = 64 << 20;
constexpr uint64_t kMaxFooterBytes = 256 << 20;
constexpr uint32_t kContinuation = 0xffffffffu;

// Fields of the format's tables, as its schema numbers them.
constexpr uint32_t kMessageHeader = 2;
constexpr uint32_t kBatchLength = 0, kBatchBuffers = 2, kBatchCompression = 3, kBatchVariadic = 4;
constexpr size_t kBufferBytes = 16;  // i64 offset, i64 length
constexpr uint32_t kDictionaryId = 0, kDictionaryValues = 1, kDictionaryDelta = 2;
constexpr uint32_t kFooterDictionaries = 2, kFooterBatches = 3;
constexpr size_t kBlockBytes = 24;  // i64 offset, i32 header length, padding, i64 body length

// What a header says, or nothing where it says it wrongly.
std::optional<BatchHeader> parse_batch(const std::optional<FlatTable>& batch) {
  if (!batch) return std::nullopt;
  const auto rows = batch->scalar<int64_t>(kBatchLength, 0);
  const auto buffers = batch->vector(kBatchBuffers, kBufferBytes);
  const auto compressed = batch->has(kBatchCompression);
  const auto variadic = batch->vector(kBatchVariadic, sizeof(int64_t));
  if (!rows || *rows < 0 || !buffers || !compressed || !variadic) return std::nullopt;
  BatchHeader header;
  header.rows = static_cast<uint64_t>(*rows);
  header.compressed = *compressed;
  for (size_t i = 0; i < buffers->count; ++i) {
    const int64_t offset = buffers->i64(i * kBufferBytes);
    const int64_t size = buffers->i64(i * kBufferBytes + sizeof(int64_t));
    if (offset < 0 || size < 0) return std::nullopt;
    header.buffers.push_back({static_cast<uint64_t>(offset), static_cast<uint64_t>(size)});
  }
  for (size_t i = 0; i < variadic->count; ++i) {
    const int64_t count = variadic->i64(i * sizeof(int64_t));
    if (count < 0) return std::nullopt;
    header.variadic_counts.push_back(static_cast<uint64_t>(count));
  }
  return header;
}

std::optional<FlatTable> message_table(std::string_view metadata) {
  const auto message = FlatTable::root(metadata);
  return message ? message->table(kMessageHeader) : std::nullopt;
}

struct Message {
  uint64_t offset = 0;
  uint64_t metadata_offset = 0;
  uint64_t body_offset = 0;
  uint64_t body_bytes = 0;
  std::unique_ptr<arrow::ipc::Message> parsed;  // without its body; null: the end of the stream

  uint64_t end() const { return body_offset + body_bytes; }
};

class ShardWalk {
 public:
  ShardWalk(const ShardJob& job, const ArrowShardVisitor& visitor)
      : job_(job), visitor_(visitor), size_(job.file.fingerprint.size_bytes) {}

  Result<uint64_t> run() {
    if (size_ < kFileHeadBytes) {
      return job_.error("is too short for Arrow (" + std::to_string(size_) + " bytes)");
    }
    OVERLORD_TRY(const runtime::Bytes head, job_.read(job_.file, 0, kFileHeadBytes));
    const std::string_view begin(head.data, head.size);
    if (begin.starts_with("FEA1")) {
      return job_.error("is Feather version 1; write it as version 2 (Arrow IPC)",
                        Code::kInvalidArgument);
    }
    if (begin.starts_with("PAR1")) {
      return job_.error("is a Parquet file; set `format: parquet`", Code::kInvalidArgument);
    }
    OVERLORD_RETURN_IF_ERROR(begin.starts_with(kMagic) ? walk_file() : walk_stream());
    return hash_;
  }

 private:
  Status error_at(uint64_t offset, const std::string& what) const {
    return job_.error("message at offset " + std::to_string(offset) + " " + what);
  }

  void note(std::string_view bytes) { hash_ = hash64(bytes.data(), bytes.size(), hash_); }

  // The header of the message at `at`; all of it lies before `end`.
  Result<Message> read_message(uint64_t at, uint64_t end) {
    OVERLORD_TRY(runtime::Bytes bytes,
                 job_.read(job_.file, at, std::min<uint64_t>(kGuessBytes, end - at)));
    ByteReader reader(std::string_view(bytes.data, bytes.size));
    uint64_t prefix = 4;
    uint64_t length = reader.u32();
    if (length == kContinuation) {  // writers before Arrow 0.15 had none
      prefix = 8;
      length = reader.u32();
    }
    if (reader.failed()) return error_at(at, "is cut short");
    Message message;
    message.offset = at;
    message.metadata_offset = at + prefix;
    message.body_offset = message.metadata_offset;
    if (length == 0) return message;
    if (length > end - message.metadata_offset || length > kMaxMetadataBytes) {
      return error_at(at, "says its header has " + std::to_string(length) +
                              " bytes, more than there are; is the shard cut short, or no Arrow "
                              "IPC?");
    }
    std::string metadata;
    if (prefix + length <= bytes.size) {
      metadata.assign(bytes.data + prefix, length);
    } else {
      OVERLORD_TRY(bytes, job_.read(job_.file, message.metadata_offset, length));
      metadata.assign(bytes.data, bytes.size);
    }
    note(metadata);
    auto parsed =
        arrow::ipc::Message::Open(arrow::Buffer::FromString(std::move(metadata)), nullptr);
    if (!parsed.ok()) {
      return error_at(at, "is broken: " + parsed.status().message() + "; is it Arrow IPC?");
    }
    message.parsed = std::move(*parsed);
    message.body_offset += length;
    const int64_t body = message.parsed->body_length();
    if (body < 0 || static_cast<uint64_t>(body) > end - message.body_offset) {
      return error_at(at, "says its body has " + std::to_string(body) + " bytes, " +
                              std::to_string(end - message.body_offset) +
                              " follow; is the shard cut short?");
    }
    message.body_bytes = static_cast<uint64_t>(body);
    return message;
  }

  Status read_schema(const Message& message) const {
    if (message.parsed == nullptr || message.parsed->type() != arrow::ipc::MessageType::SCHEMA) {
      return error_at(message.offset, "is no schema; the shard is no Arrow IPC");
    }
    arrow::ipc::DictionaryMemo memo;
    const auto schema = arrow::ipc::ReadSchema(*message.parsed, &memo);
    if (!schema.ok()) {
      return error_at(message.offset, "has a broken schema: " + schema.status().message());
    }
    if ((*schema)->endianness() != arrow::Endianness::Native) {
      return job_.error("was written big-endian, which is not read", Code::kInvalidArgument);
    }
    return visitor_.schema(*schema, memo.fields());
  }

  Status take_batch(const Message& message) const {
    OVERLORD_TRY(const BatchMessage batch,
                 described(message, message_table(std::string_view(*message.parsed->metadata()))));
    return visitor_.batch(batch);
  }

  Status take_dictionary(const Message& message) const {
    const auto table = message_table(std::string_view(*message.parsed->metadata()));
    const auto id = table ? table->scalar<int64_t>(kDictionaryId, 0) : std::nullopt;
    const auto delta = table ? table->scalar<uint8_t>(kDictionaryDelta, 0) : std::nullopt;
    if (!id || !delta) return error_at(message.offset, "is a dictionary with a broken header");
    OVERLORD_TRY(const BatchMessage values, described(message, table->table(kDictionaryValues)));
    return visitor_.dictionary(values, *id, *delta != 0);
  }

  // The batch that a message has, whose header is in `table`.
  Result<BatchMessage> described(const Message& message,
                                 const std::optional<FlatTable>& table) const {
    BatchMessage batch{message.offset,
                       message.metadata_offset,
                       message.body_offset,
                       message.body_bytes,
                       std::string_view(*message.parsed->metadata()),
                       {}};
    std::optional<BatchHeader> header = parse_batch(table);
    if (!header) return error_at(message.offset, "is a record batch with a broken header");
    for (const BatchBuffer& buffer : header->buffers) {
      if (buffer.offset <= batch.body_bytes &&
          buffer.size_bytes <= batch.body_bytes - buffer.offset) {
        continue;
      }
      return error_at(message.offset, "is a record batch with a buffer outside of its body");
    }
    batch.header = std::move(*header);
    return batch;
  }

  Status walk_stream() {
    bool begun = false;
    for (uint64_t at = 0; at < size_;) {
      OVERLORD_TRY(const Message message, read_message(at, size_));
      if (message.parsed == nullptr) {
        if (!begun) break;
        if (message.end() == size_) return {};
        return job_.error("has bytes behind the end of its stream (offset " +
                          std::to_string(message.end()) +
                          "); streams that were joined are not read, list them as files");
      }
      const arrow::ipc::MessageType type = message.parsed->type();
      if (!begun) {
        OVERLORD_RETURN_IF_ERROR(read_schema(message));
        begun = true;
      } else if (type == arrow::ipc::MessageType::RECORD_BATCH) {
        OVERLORD_RETURN_IF_ERROR(take_batch(message));
      } else if (type == arrow::ipc::MessageType::DICTIONARY_BATCH) {
        if (visitor_.wants_dictionaries()) OVERLORD_RETURN_IF_ERROR(take_dictionary(message));
      } else {
        return error_at(at, "is neither rows nor a dictionary");
      }
      at = message.end();
    }
    return begun ? Status() : job_.error("has no schema; it is no Arrow IPC stream");
  }

  Status walk_file() {
    const auto cut = [&](const std::string& what) {
      return job_.error(what + "; is it cut short, or was its writer not closed?");
    };
    if (size_ < kFileHeadBytes + kTrailerBytes) return cut("has no footer");
    OVERLORD_TRY(runtime::Bytes tail, job_.read(job_.file, size_ - kTrailerBytes, kTrailerBytes));
    ByteReader trailer(std::string_view(tail.data, tail.size));
    const uint64_t length = trailer.u32();
    if (trailer.raw(kMagic.size()) != kMagic) {
      return cut("has no Arrow magic at its end (offset " + std::to_string(size_ - kMagic.size()) +
                 ")");
    }
    if (length >= size_ - kTrailerBytes - kFileHeadBytes || length > kMaxFooterBytes) {
      return cut("footer length " + std::to_string(length) + " (at offset " +
                 std::to_string(size_ - kTrailerBytes) + ") does not fit the file");
    }
    const uint64_t footer_at = size_ - kTrailerBytes - length;
    OVERLORD_TRY(const runtime::Bytes footer,
                 job_.read(job_.file, footer_at, length + kTrailerBytes));
    note(std::string_view(footer.data, footer.size));
    // A file holds a stream, so its schema is there as well as in the footer.
    OVERLORD_TRY(const Message first, read_message(kFileHeadBytes, footer_at));
    OVERLORD_RETURN_IF_ERROR(read_schema(first));
    const auto table = FlatTable::root(std::string_view(footer.data, length));
    const auto blocks = table ? table->vector(kFooterBatches, kBlockBytes) : std::nullopt;
    const auto values = table ? table->vector(kFooterDictionaries, kBlockBytes) : std::nullopt;
    if (!blocks || !values) return job_.error("footer is broken");
    for (size_t i = 0; visitor_.wants_dictionaries() && i < values->count; ++i) {
      OVERLORD_RETURN_IF_ERROR(walk_dictionary(*values, i, footer_at));
    }
    uint64_t next = kFileHeadBytes;
    for (size_t i = 0; i < blocks->count; ++i) {
      const auto at = static_cast<uint64_t>(blocks->i64(i * kBlockBytes));
      const std::string which = "footer places record batch " + std::to_string(i);
      if (at < next || at >= footer_at) {
        return job_.error(which + " at offset " + std::to_string(at) +
                          ", which is outside of the data or within the batch before");
      }
      OVERLORD_TRY(const Message message, read_message(at, footer_at));
      if (message.parsed == nullptr ||
          message.parsed->type() != arrow::ipc::MessageType::RECORD_BATCH) {
        return job_.error(which + " at offset " + std::to_string(at) + ", where none is");
      }
      OVERLORD_RETURN_IF_ERROR(take_batch(message));
      next = message.end();
    }
    return {};
  }

  // Those of a file may lie anywhere in it: all of them are known before its batches.
  Status walk_dictionary(const FlatVector& blocks, size_t i, uint64_t footer_at) {
    const auto at = static_cast<uint64_t>(blocks.i64(i * kBlockBytes));
    const std::string which =
        "footer places dictionary " + std::to_string(i) + " at offset " + std::to_string(at);
    if (at < kFileHeadBytes || at >= footer_at) {
      return job_.error(which + ", which is outside of the data");
    }
    OVERLORD_TRY(const Message message, read_message(at, footer_at));
    if (message.parsed == nullptr ||
        message.parsed->type() != arrow::ipc::MessageType::DICTIONARY_BATCH) {
      return job_.error(which + ", where none is");
    }
    return take_dictionary(message);
  }

  const ShardJob& job_;
  const ArrowShardVisitor& visitor_;
  const uint64_t size_;
  uint64_t hash_ = 0;
};

}  // namespace

Result<uint64_t> visit_arrow_shard(const ShardJob& job, const ArrowShardVisitor& visitor) {
  return ShardWalk(job, visitor).run();
}

}  // namespace overlord::columnar
