#include "overlord/columnar/index/length_pass.h"

#include <deque>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "overlord/columnar/encoded_rows.h"
#include "overlord/columnar/formats/tokens/token_reader.h"
#include "overlord/columnar/index/reader_factory.h"
#include "overlord/columnar/text_rules.h"

namespace overlord::columnar {
namespace {

// Blocks of text with the encoder at once: enough to keep several tokenizer processes busy.
constexpr size_t kBlocksInFlight = 8;

using Encoded = Result<runtime::EncodedRows>;

struct InFlight {
  uint32_t block = 0;
  std::vector<model::BadRow> bad;
  std::future<Encoded> encoded;
};

class LengthPass {
 public:
  LengthPass(const ShardJob& job, runtime::TextEncoder* encoder,
             std::shared_ptr<const IndexFile> file, const BlockReader& reader, bool counting,
             ShardPart* part)
      : job_(job),
        encoder_(encoder),
        file_(std::move(file)),
        reader_(reader),
        counting_(counting),
        part_(part) {
    lengths_.assign(part->entry.rows, 0);
  }

  // A batch the encoder still has must not outlive what its callback writes to: each owns its
  // promise, so leaving early is safe.
  Status run() {
    for (uint32_t block = 0; block < file_->blocks().size(); ++block) {
      OVERLORD_RETURN_IF_ERROR(job_.check_cancelled());
      OVERLORD_TRY(RowBlock rows, decode(block));
      job_.progress->bytes_done += file_->blocks()[block].size_bytes;
      take_columns(&rows);
      if (!counting_) {
        take_bad(block, std::move(rows.is_text ? rows.text.bad : rows.tokens.bad));
        continue;
      }
      if (!rows.is_text) {
        take_counts(block, rows.tokens.counts, std::move(rows.tokens.bad));
        continue;
      }
      if (in_flight_.size() >= kBlocksInFlight) OVERLORD_RETURN_IF_ERROR(finish_oldest());
      send(block, std::move(rows.text));
    }
    while (!in_flight_.empty()) OVERLORD_RETURN_IF_ERROR(finish_oldest());
    if (counting_) part_->lengths = std::move(lengths_);
    keep_known_bad();
    return {};
  }

 private:
  Result<RowBlock> decode(uint32_t block) {
    BlockRequest request;
    request.block = block;
    OVERLORD_TRY(const std::vector<RangeRequest> ranges, reader_.ranges(request));
    std::vector<runtime::Bytes> pieces;
    for (const RangeRequest& range : ranges) {
      OVERLORD_TRY(runtime::Bytes bytes, job_.read(job_.file, range.offset, range.size_bytes));
      pieces.push_back(std::move(bytes));
    }
    return reader_.decode(request, pieces);
  }

  void send(uint32_t block, TextBlock text) {
    auto promise = std::make_shared<std::promise<Encoded>>();
    in_flight_.push_back({block, std::move(text.bad), promise->get_future()});
    encoder_->encode(std::move(text.rows), *job_.cancel,
                     [promise](Encoded encoded) { promise->set_value(std::move(encoded)); });
  }

  Status finish_oldest() {
    InFlight oldest = std::move(in_flight_.front());
    in_flight_.pop_front();
    Encoded encoded = wait(&oldest.encoded);
    if (!encoded.ok()) return encoded.status().with_context("source '" + job_.source->name + "'");
    const model::BlockEntry& entry = file_->blocks()[oldest.block];
    const std::vector<uint64_t>& ends = encoded->ends;
    if (ends.size() != entry.rows) {
      return job_.error("the tokenizer answered " + std::to_string(ends.size()) + " rows for " +
                            std::to_string(entry.rows),
                        Code::kInternal);
    }
    std::vector<uint32_t> counts(entry.rows, 0);
    for (const model::BadRow& bad : oldest.bad) counts[bad.index] = model::kBadRow;
    std::vector<model::BadRow> bad = std::move(oldest.bad);
    for (const model::BadRow& left_out : encoded->bad) {
      if (counts[left_out.index] == model::kBadRow) continue;
      counts[left_out.index] = model::kBadRow;
      bad.push_back(
          {left_out.index, job_.reason(entry.first_row + left_out.index, left_out.reason)});
    }
    for (uint32_t row = 0; row < entry.rows; ++row) {
      if (counts[row] == model::kBadRow) continue;
      const uint64_t begin = row == 0 ? 0 : ends[row - 1];
      const uint64_t count = ends[row] - begin;
      const std::string fault = token_fault(*job_.source, encoded->tokens.data() + begin, count);
      if (!fault.empty()) bad.push_back({row, job_.reason(entry.first_row + row, fault)});
      counts[row] = fault.empty() ? static_cast<uint32_t>(count) : model::kBadRow;
    }
    take_counts(oldest.block, counts, std::move(bad));
    return {};
  }

  // An encoder that was shut down may drop its callback: the broken promise says so.
  static Encoded wait(std::future<Encoded>* future) {
    try {
      return future->get();
    } catch (const std::future_error&) {
      return Status(Code::kCancelled, "the tokenizer was stopped");
    }
  }

  void take_counts(uint32_t block, const std::vector<uint32_t>& counts,
                   std::vector<model::BadRow> bad) {
    const uint64_t first = file_->blocks()[block].first_row;
    std::copy(counts.begin(), counts.end(), lengths_.begin() + static_cast<ptrdiff_t>(first));
    take_bad(block, std::move(bad));
  }

  // A row that cannot be read has 0. What only the encoder refuses keeps its values: an index
  // without lengths has them, too.
  void take_columns(RowBlock* rows) {
    if (rows->columns.empty()) return;
    for (const model::BadRow& bad : rows->is_text ? rows->text.bad : rows->tokens.bad) {
      for (std::vector<uint32_t>& values : rows->columns) values[bad.index] = 0;
    }
    part_->columns.resize(rows->columns.size());
    part_->columns_seen |= rows->columns_seen;
    for (size_t i = 0; i < rows->columns.size(); ++i) {
      part_->columns[i].insert(part_->columns[i].end(), rows->columns[i].begin(),
                               rows->columns[i].end());
    }
    if (part_->fields.empty()) part_->fields = std::move(rows->fields);
  }

  // A row that was bad before (a metadata value that is none, media that cannot be used) stays so,
  // whatever else it has.
  void keep_known_bad() {
    std::map<uint64_t, std::string> all(std::make_move_iterator(bad_.begin()),
                                        std::make_move_iterator(bad_.end()));
    for (auto& [row, reason] : part_->bad) {
      if (part_->columns.empty() && part_->media.empty()) continue;
      if (counting_) part_->lengths[row] = model::kBadRow;
      for (std::vector<uint32_t>& values : part_->columns) values[row] = 0;
      const auto [found, is_new] = all.try_emplace(row, std::move(reason));
      // An empty row may be skipped, one that is bad otherwise may not.
      if (!is_new && tells_empty_row(found->second)) found->second = std::move(reason);
    }
    part_->bad.assign(std::make_move_iterator(all.begin()), std::make_move_iterator(all.end()));
  }

  void take_bad(uint32_t block, std::vector<model::BadRow> bad) {
    const uint64_t first = file_->blocks()[block].first_row;
    std::sort(bad.begin(), bad.end(),
              [](const auto& a, const auto& b) { return a.index < b.index; });
    for (model::BadRow& row : bad) bad_.emplace_back(first + row.index, std::move(row.reason));
  }

  const ShardJob& job_;
  runtime::TextEncoder* const encoder_;
  const std::shared_ptr<const IndexFile> file_;
  const BlockReader& reader_;
  const bool counting_;
  ShardPart* const part_;
  std::deque<InFlight> in_flight_;
  std::vector<uint32_t> lengths_;
  std::vector<std::pair<uint64_t, std::string>> bad_;
};

// A private index of the shard alone: the same reader code counts now and reads later.
Result<std::shared_ptr<const IndexFile>> own_index(IndexConfig config, const ShardPart& part) {
  config.metadata_columns.clear();  // readers do without
  OVERLORD_TRY(std::string bytes, encode_index(config, {part}, !part.lengths.empty()));
  return IndexFile::from_bytes(std::move(bytes), part.entry.uri);
}

}  // namespace

Status count_tokens(const ShardJob& job, runtime::TextEncoder* encoder, const IndexConfig& config,
                    ShardPart* part) {
  if (part->entry.rows == 0) return {};
  const bool stored = !part->lengths.empty();
  OVERLORD_TRY(const std::shared_ptr<const IndexFile> file, own_index(config, *part));
  OVERLORD_TRY(const std::unique_ptr<BlockReader> reader, make_reader(file, *job.source));
  const std::vector<uint32_t> stored_lengths = part->lengths;
  OVERLORD_RETURN_IF_ERROR(LengthPass(job, encoder, file, *reader, true, part).run());
  if (stored) note_bad_documents(stored_lengths, part);
  return {};
}

Status read_columns(const ShardJob& job, const IndexConfig& config, ShardPart* part) {
  if (part->entry.rows == 0) return {};
  OVERLORD_TRY(const std::shared_ptr<const IndexFile> file, own_index(config, *part));
  OVERLORD_TRY(const std::unique_ptr<BlockReader> reader, make_reader(file, *job.source));
  return LengthPass(job, nullptr, file, *reader, false, part).run();
}

}  // namespace overlord::columnar
