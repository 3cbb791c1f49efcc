// Indexing of MDS shards. Without media and metadata the table of offsets is all that is read; with
// them, the sizes that each sample says, its numbers, and the first bytes of its blobs.
#include <algorithm>

#include "overlord/base/hash.h"
#include "overlord/columnar/formats/mds/mds_reader.h"
#include "overlord/columnar/formats/mds/mds_samples.h"
#include "overlord/columnar/formats/mds/mds_values.h"
#include "overlord/columnar/media.h"
#include "overlord/columnar/streams/text_stream.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

class SampleBlocks {
 public:
  SampleBlocks(const ShardJob& job, const MdsHead& head, MdsText* text, ShardPart* part)
      : job_(job), head_(head), text_(text), part_(part), notes_(job, part) {}

  Status run() {
    const bool looks = !job_.source->media.empty() || !job_.source->metadata_columns.empty();
    for (size_t i = 0; i + 1 < head_.offsets.size(); ++i) {
      if (i % kRowsBetweenChecks == 0) OVERLORD_RETURN_IF_ERROR(job_.check_cancelled());
      const uint64_t begin = head_.offsets[i];
      sample_ = {};
      sample_.whole = {begin, head_.offsets[i + 1] - begin};
      sample_.media.resize(job_.source->media.size());
      fault_ = fault_of_size();
      if (looks) OVERLORD_RETURN_IF_ERROR(look());
      finish_sample();
    }
    close_block();
    part_->block_extras = extras_.take();
    return {};
  }

 private:
  static constexpr size_t kRowsBetweenChecks = 4096;

  // A sample that is read as a whole has to fit a block.
  std::string fault_of_size() const {
    const uint64_t most = job_.source->limits.max_block_bytes;
    if (!job_.source->media.empty() || sample_.whole.size_bytes <= most) return {};
    return "sample of " + std::to_string(sample_.whole.size_bytes) +
           " bytes is over limits.max_block (" + std::to_string(most) + ")";
  }

  // A value of the sample in hand, or a part of it.
  Result<std::string_view> value(const MdsSpan& span) {
    return text_->at(sample_.whole.offset + span.offset, span.size_bytes);
  }

  // The columns of the sample: a metadata value, blobs, where the row's own values are.
  Status look() {
    notes_.begin_row();
    std::vector<uint32_t> values(job_.source->metadata_columns.size(), 0);
    std::vector<MdsSpan> spans;
    if (fault_.empty()) {
      const MdsColumns& columns = head_.columns;
      const uint64_t sizes = std::min(columns.sizes_bytes(), sample_.whole.size_bytes);
      OVERLORD_TRY(const std::string_view said, value({0, sizes}));
      fault_ = columns.cut(said, sample_.whole.size_bytes, &spans);
    }
    for (size_t i = 0; fault_.empty() && i < values.size(); ++i) {
      const size_t at = head_.columns.metadata[i];
      OVERLORD_TRY(const std::string_view bytes, value(spans[at]));
      fault_ = take_mds_metadata(head_.columns.all[at], bytes, &values[i]);
    }
    for (const size_t at : head_.columns.rows) {
      if (fault_.empty()) take_row_value(spans[at]);
    }
    for (size_t field = 0; fault_.empty() && field < sample_.media.size(); ++field) {
      OVERLORD_RETURN_IF_ERROR(take_media(field, spans[head_.columns.media[field]]));
    }
    if (!fault_.empty()) {
      notes_.drop_row();
      std::fill(values.begin(), values.end(), 0);
    }
    for (size_t i = 0; i < values.size(); ++i) part_->columns[i].push_back(values[i]);
    return {};
  }

  void take_row_value(const MdsSpan& span) {
    const model::SourceLimits& limits = job_.source->limits;
    const uint64_t most = std::min(limits.max_document_bytes, limits.max_block_bytes);
    sample_.rows.push_back(span);
    if (span.size_bytes <= most || job_.source->media.empty()) return;
    fault_ = "a column has " + std::to_string(span.size_bytes) +
             " bytes, over limits.max_document (" + std::to_string(most) + ")";
  }

  Status take_media(size_t field, const MdsSpan& whole) {
    const MdsColumn& column = head_.columns.all[head_.columns.media[field]];
    std::vector<MdsSpan> blobs = {whole};
    if (is_mds_list(column)) {
      blobs.clear();
      OVERLORD_RETURN_IF_ERROR(list_blobs(field, column, whole, &blobs));
    }
    for (const MdsSpan& blob : blobs) {
      if (!fault_.empty()) return {};
      const uint64_t head_bytes = std::min<uint64_t>(notes_.head_bytes(true), blob.size_bytes);
      OVERLORD_TRY(const std::string_view head, value({blob.offset, head_bytes}));
      const std::string kept(head);  // a probe may ask for more, from the same text
      const BlobSource source{kept, blob.size_bytes,
                              [&](BlobRange range) -> Result<runtime::Bytes> {
                                OVERLORD_TRY(const std::string_view bytes,
                                             value({blob.offset + range.offset, range.size_bytes}));
                                return runtime::Bytes::copy_of(std::string(bytes));
                              }};
      OVERLORD_TRY(const BlobNote note, notes_.look(field, source));
      fault_ = notes_.add(field, note);
      sample_.media[field].push_back(blob);
    }
    return {};
  }

  Status list_blobs(size_t field, const MdsColumn& column, const MdsSpan& whole,
                    std::vector<MdsSpan>* blobs) {
    const uint64_t head_bytes = mds_list_head_bytes(column);
    uint64_t count = 0;
    if (whole.size_bytes >= head_bytes) {
      OVERLORD_TRY(const std::string_view head, value({whole.offset, head_bytes}));
      count = mds_list_count(column, head);
    }
    const uint64_t sizes_bytes = count * sizeof(uint32_t);
    if (whole.size_bytes < head_bytes || sizes_bytes > whole.size_bytes - head_bytes) {
      fault_ = "column " + runtime::quote(column.name) + " is a list that is cut short";
      return {};
    }
    fault_ = too_many_blobs(job_.source->media[field], count);
    if (!fault_.empty()) return {};
    OVERLORD_TRY(const std::string_view sizes, value({whole.offset + head_bytes, sizes_bytes}));
    fault_ = mds_list_spans(column, sizes, whole.size_bytes, blobs);
    for (MdsSpan& blob : *blobs) blob.offset += whole.offset;
    return {};
  }

  // What reading a sample's row takes.
  uint64_t wanted_bytes() const {
    if (job_.source->media.empty()) return sample_.whole.size_bytes;
    uint64_t bytes = 0;
    for (const MdsSpan& span : sample_.rows) bytes += span.size_bytes;
    return bytes;
  }

  void finish_sample() {
    const uint64_t row = part_->entry.rows;
    sample_.bad = !fault_.empty();
    if (sample_.bad) part_->bad.emplace_back(row, job_.reason(row, fault_));
    const uint64_t wanted = sample_.bad ? 0 : wanted_bytes();
    const uint64_t most = std::min(job_.options->block_bytes, job_.source->limits.max_block_bytes);
    const bool fits =
        !block_.empty() && block_.size() < job_.options->block_rows && wanted_ + wanted <= most;
    // A compressed shard is decompressed from its beginning: one block, whatever its size.
    if (!text_->is_whole() && !fits) close_block();
    wanted_ += wanted;
    block_.push_back(std::move(sample_));
    ++part_->entry.rows;
  }

  void close_block() {
    if (block_.empty()) return;
    write_mds_samples(block_, *job_.source, &extras_);
    part_->block_extra_ends.push_back(extras_.size());
    const MdsSpan& last = block_.back().whole;
    const uint64_t begin = block_.front().whole.offset;
    const uint64_t span = last.offset + last.size_bytes - begin;
    part_->blocks.push_back({part_->entry.rows - block_.size(),
                             static_cast<uint32_t>(block_.size()), 0, begin,
                             text_->is_whole() ? span : wanted_});
    block_.clear();
    wanted_ = 0;
  }

  const ShardJob& job_;
  const MdsHead& head_;
  MdsText* const text_;
  ShardPart* const part_;
  MediaNotes notes_;
  ByteWriter extras_;
  MdsSample sample_;
  std::string fault_;
  std::vector<MdsSample> block_;
  uint64_t wanted_ = 0;
};

}  // namespace

Result<ShardPart> index_mds_shard(const ShardJob& job) {
  MdsText text(job);
  OVERLORD_RETURN_IF_ERROR(text.open());
  OVERLORD_TRY(const MdsHead head, read_mds_head(job, &text));
  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  part.extra = keep_mds_columns(head.columns);
  part.scanned = head.scanned;
  part.columns.resize(job.source->metadata_columns.size());
  part.columns_seen = ~uint64_t{0} >> (64 - model::kMaxMetadataColumns);
  OVERLORD_RETURN_IF_ERROR(SampleBlocks(job, head, &text, &part).run());
  return part;
}

}  // namespace overlord::columnar
