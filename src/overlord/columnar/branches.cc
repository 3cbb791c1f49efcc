#include "overlord/columnar/branches.h"

#include <algorithm>
#include <utility>

namespace overlord::columnar {
namespace {

template <typename T>
std::vector<T> repeated(std::span<const T> values, uint32_t times) {
  std::vector<T> out;
  out.reserve(values.size() * times);
  for (const T& value : values) out.insert(out.end(), times, value);
  return out;
}

class BranchReader final : public BlockReader {
 public:
  BranchReader(std::unique_ptr<BlockReader> rows, const model::Source& source)
      : rows_(std::move(rows)), branches_(source.schema.branches), fields_(source.media.size()) {}

  Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const override {
    return rows_->ranges(of_file(request));
  }

  Result<RowBlock> decode(const BlockRequest& request,
                          const std::vector<runtime::Bytes>& pieces) const override {
    OVERLORD_TRY(RowBlock block, rows_->decode(of_file(request), pieces));
    TextBlock text;
    for (uint32_t row = 0; row < block.text.rows.rows(); ++row) {
      const std::string_view record = block.text.rows.row(row);
      for (uint32_t branch = 0; branch < branches_; ++branch) {
        if (!record.empty()) text.rows.bytes += static_cast<char>('0' + branch);
        text.rows.bytes += record;
        text.rows.ends.push_back(text.rows.bytes.size());
      }
    }
    for (const model::BadRow& bad : block.text.bad) {
      for (uint32_t branch = 0; branch < branches_; ++branch) {
        text.bad.push_back({bad.index * branches_ + branch, bad.reason});
      }
    }
    block.text = std::move(text);
    for (std::vector<uint32_t>& values : block.columns) {
      values = repeated(std::span<const uint32_t>(values), branches_);
    }
    return block;
  }

  Result<MediaPlaces> media_places(const BlockRequest& request) const override {
    OVERLORD_TRY(const MediaPlaces places, rows_->media_places(of_file(request)));
    MediaPlaces out;
    for_each_list(request, places, [&](uint32_t begin, uint32_t end) {
      for (uint32_t i = begin; i < end; ++i) out.blobs.push_back(places.blobs[i]);
      out.ends.push_back(static_cast<uint32_t>(out.blobs.size()));
    });
    return out;
  }

  Result<std::vector<RangeRequest>> media_ranges(const BlockRequest& request) const override {
    return rows_->media_ranges(of_file(request));
  }

  Result<std::vector<runtime::Bytes>> decode_media(
      const BlockRequest& request, const std::vector<runtime::Bytes>& pieces) const override {
    const BlockRequest wanted = of_file(request);
    OVERLORD_TRY(const MediaPlaces places, rows_->media_places(wanted));
    OVERLORD_TRY(const std::vector<runtime::Bytes> blobs, rows_->decode_media(wanted, pieces));
    std::vector<runtime::Bytes> out;
    for_each_list(request, places, [&](uint32_t begin, uint32_t end) {
      out.insert(out.end(), blobs.begin() + begin, blobs.begin() + end);
    });
    return out;
  }

 private:
  // The same rows as the file has them.
  BlockRequest of_file(const BlockRequest& request) const {
    BlockRequest wanted = request;
    wanted.rows.clear();
    for (const uint32_t row : request.rows) {
      const uint32_t in_file = row / branches_;
      if (wanted.rows.empty() || wanted.rows.back() != in_file) wanted.rows.push_back(in_file);
    }
    return wanted;
  }

  // Calls list(begin, end) for the blobs of every wanted row and field; `places` are of the file's.
  template <typename List>
  void for_each_list(const BlockRequest& request, const MediaPlaces& places, List list) const {
    const auto lists_of = [&](size_t row) {
      for (size_t at = row * fields_; at < (row + 1) * fields_; ++at) {
        list(at == 0 ? 0 : places.ends[at - 1], places.ends[at]);
      }
    };
    const size_t rows = fields_ == 0 ? 0 : places.ends.size() / fields_;  // as the file has them
    if (request.rows.empty()) {
      for (size_t row = 0; row < rows * branches_; ++row) lists_of(row / branches_);
      return;
    }
    size_t at = 0;
    uint32_t in_file = request.rows.front() / branches_;
    for (const uint32_t row : request.rows) {
      if (row / branches_ != in_file) ++at;
      in_file = row / branches_;
      if (at < rows) lists_of(at);
    }
  }

  const std::unique_ptr<BlockReader> rows_;
  const uint32_t branches_;
  const size_t fields_;  // of media
};

}  // namespace

BranchedRows::BranchedRows(const IndexFile& file, uint32_t branches)
    : shards(file.shards()), blocks(file.blocks().begin(), file.blocks().end()) {
  for (model::ShardEntry& shard : shards) {
    shard.first_row *= branches;
    shard.rows *= branches;
  }
  for (model::BlockEntry& block : blocks) {
    block.first_row *= branches;
    block.rows *= branches;
  }
  const IndexConfig& config = file.config();
  for (size_t i = 0; i < config.metadata_columns.size(); ++i) {
    columns.push_back(repeated(file.column(i), branches));
  }
  for (size_t field = 0; field < config.media.size(); ++field) {
    const std::span<const uint64_t> ends = file.media_ends(field);
    std::vector<uint64_t>& all = media_ends.emplace_back();
    auto& values = media.emplace_back(1 + size_t{config.probe_values});
    uint64_t begin = 0;
    for (const uint64_t end : ends) {
      for (uint32_t branch = 0; branch < branches; ++branch) {
        all.push_back((all.empty() ? 0 : all.back()) + (end - begin));
        for (size_t which = 0; which < values.size(); ++which) {
          const auto kept = file.media(field, which).subspan(begin, end - begin);
          values[which].insert(values[which].end(), kept.begin(), kept.end());
        }
      }
      begin = end;
    }
  }
}

std::unique_ptr<BlockReader> make_branch_reader(std::unique_ptr<BlockReader> rows,
                                                const model::Source& source) {
  return std::make_unique<BranchReader>(std::move(rows), source);
}

std::string row_text(const model::Source& source, uint64_t row) {
  const uint32_t branches = source.schema.branches;
  if (branches <= 1) return std::to_string(row);
  const uint64_t branch = row % branches;
  return std::to_string(row / branches) + " (" +
         (branch < source.schema.columns.size() ? source.schema.columns[branch] : "branch") + ")";
}

}  // namespace overlord::columnar
