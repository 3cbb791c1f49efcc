#include "overlord/columnar/formats/megatron/sequence_media.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "overlord/base/bytes.h"
#include "overlord/columnar/media_columns.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

constexpr uint64_t kPaddingBytes = 4;  // the number in front
constexpr uint32_t kMostPadding = 3;

}  // namespace

std::optional<int8_t> mode_of(const model::MediaField& field) {
  const std::string& text = field.from.front();
  int mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || mode < 1 || mode > INT8_MAX) return std::nullopt;
  return static_cast<int8_t>(mode);
}

Result<std::string> SequenceMedia::take(const std::vector<PackedFile>& files) {
  notes_.begin_row();
  ByteWriter places;
  for (size_t field = 0; field < job_.source->media.size(); ++field) {
    const auto mode = mode_of(job_.source->media[field]);
    const auto of_field = [&](const PackedFile& file) { return file.mode == mode; };
    const auto count = std::count_if(files.begin(), files.end(), of_field);
    places.varint(static_cast<uint64_t>(count));
    for (const PackedFile& file : files) {
      if (!of_field(file)) continue;
      OVERLORD_TRY(const std::string fault, add(field, file, &places));
      if (!fault.empty()) return fault;
    }
  }
  row_ = places.take();
  return std::string();
}

Result<std::string> SequenceMedia::add(size_t field, const PackedFile& file, ByteWriter* places) {
  const auto fault = [&](const char* what) {
    return "media " + runtime::quote(job_.source->media[field].name) + ": sequence of " +
           std::to_string(file.size_bytes) + " bytes " + what;
  };
  if (file.size_bytes < kPaddingBytes) return fault("has no room for the number in front of it");
  const uint64_t head_bytes =
      std::min(file.size_bytes, kPaddingBytes + uint64_t{notes_.head_bytes(true)});
  OVERLORD_TRY(const runtime::Bytes head, job_.read(job_.file, file.offset, head_bytes));
  uint32_t padding = 0;
  std::memcpy(&padding, head.data, sizeof padding);
  if (padding > kMostPadding || padding > file.size_bytes - kPaddingBytes) {
    return fault("does not begin with its padding, as preprocess_mmdata.py writes it");
  }
  const uint64_t begin = file.offset + kPaddingBytes;
  const uint64_t size = file.size_bytes - kPaddingBytes - padding;
  const std::string_view bytes(head.data + kPaddingBytes, head.size - kPaddingBytes);
  const BlobSource blob{bytes.substr(0, size), size, [&](BlobRange range) {
                          return job_.read(job_.file, begin + range.offset, range.size_bytes);
                        }};
  OVERLORD_TRY(const BlobNote note, notes_.look(field, blob));
  write_blob_in_shard(begin, size, places);
  return notes_.add(field, note);
}

void SequenceMedia::end_document(bool bad) {
  if (bad) {
    notes_.drop_row();
    row_.assign(job_.source->media.size(), '\0');  // no blobs in any field
  }
  blocks_.resize(part_->blocks.size());
  blocks_.back() += row_;
  row_.clear();
}

void SequenceMedia::finish() {
  for (const std::string& block : blocks_) {
    part_->block_extras += block;
    part_->block_extra_ends.push_back(part_->block_extras.size());
  }
}

}  // namespace overlord::columnar
