#include "overlord/columnar/index/shard_job.h"

#include "overlord/columnar/index/indexed_reader.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {

Status ShardJob::check_cancelled() const {
  if (!cancel->cancelled() && !(abandoned && abandoned())) return {};
  return {Code::kCancelled,
          "indexing of source " + runtime::quote(source->name) + " was cancelled"};
}

Result<runtime::Bytes> ShardJob::read(const runtime::FileInfo& which, uint64_t offset,
                                      uint64_t size_bytes) const {
  OVERLORD_RETURN_IF_ERROR(check_cancelled());
  runtime::ReadRequest request;
  request.uri = which.uri;
  request.offset = offset;
  request.size_bytes = size_bytes;
  request.expected = which.fingerprint;
  auto bytes = storage->read_blocking(request);
  if (bytes.ok()) return bytes;
  return bytes.status().with_context("source " + runtime::quote(source->name));
}

void ShardJob::note_scanned(uint64_t size_bytes) const {
  scanned_bytes += size_bytes;
  progress->bytes_done += size_bytes;
}

Status ShardJob::error(std::string_view what, Code code) const {
  return {code, "source " + runtime::quote(source->name) + ", shard " + runtime::quote(file.uri) +
                    ": " + std::string(what)};
}

std::string ShardJob::reason(uint64_t row, std::string_view what) const {
  return row_reason(source->name, file.uri, row, what);
}

std::string companion_uri(const model::Source& source, const std::string& uri) {
  if (source.format != model::Format::kMegatron) return {};
  return uri.substr(0, uri.size() - 4) + ".idx";
}

}  // namespace overlord::columnar
