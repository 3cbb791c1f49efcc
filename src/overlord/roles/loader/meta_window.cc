#include "overlord/roles/loader/meta_window.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/columnar/encoded_rows.h"
#include "overlord/columnar/text_rules.h"
#include "overlord/roles/loader/document_layout.h"

namespace overlord::loader {
namespace {

uint32_t special_tokens(const model::Source& source) {
  return (source.bos ? 1u : 0u) + (source.eod ? 1u : 0u);
}

// Why the index has a row as bad; null: it has not.
const std::string* known_bad(const OpenSource& source, uint64_t row) {
  const auto& bad = source.bad_rows;
  const auto found = std::lower_bound(bad.begin(), bad.end(), std::pair(row, std::string()));
  return found != bad.end() && found->first == row ? &found->second : nullptr;
}

std::string index_reason(const OpenSource& source, uint64_t row) {
  const std::string* reason = known_bad(source, row);
  return reason != nullptr ? *reason : "found bad when indexed";
}

// A row that cannot be used: bad, or empty where the source skips those. What the index has as bad
// for another reason is no mere empty row.
void set_aside(const OpenSource& source, uint32_t index, uint64_t row, std::string reason,
               model::MetaWindow* window) {
  if (source.spec.empty == model::EmptyRows::kSkip && columnar::tells_empty_row(reason)) {
    const std::string* known = known_bad(source, row);
    if (known == nullptr || columnar::tells_empty_row(*known)) {
      window->tokens[index] = model::kEmptyRow;
      return;
    }
    reason = *known;
  }
  OVERLORD_CHECK(window->tokens[index] == 0, "a bad row has no tokens");
  window->bad.push_back({index, std::move(reason)});
}

// The metadata columns of the window's rows, as the index has them.
void add_columns(const OpenSource& source, const std::vector<uint64_t>& rows,
                 model::MetaWindow* window) {
  for (size_t c = 0; c < source.manifest.columns.size(); ++c) {
    const std::span<const uint32_t> values = source.manifest.columns[c];
    model::MetaColumn& column = window->columns.emplace_back();
    column.name = source.spec.metadata_columns[c];
    column.values.reserve(rows.size());
    for (const uint64_t row : rows) column.values.push_back(values[row]);
  }
}

// Rows that are not of this sub-source, or of another part of its source. A bad row has values, too
// (0 where it has none of its own), the same whoever finds it bad: exactly one of the sub-sources
// counts it.
class SubSourceFilter {
 public:
  explicit SubSourceFilter(const OpenSource& source)
      : part_(source.spec.part), groups_(source.spec, source.manifest) {
    if (!source.spec.filter) return;
    const auto& names = source.spec.metadata_columns;
    const auto at = std::find(names.begin(), names.end(), source.spec.filter->column);
    OVERLORD_CHECK(at != names.end(), "a filter reads a column of its source");
    values_ = source.manifest.columns[static_cast<size_t>(at - names.begin())];
    filter_ = *source.spec.filter;
  }
  bool passes_over(const plan::RowRef& ref, uint64_t row) const {
    if (part_) {  // groups are in it whole
      const model::ShardEntry& shard = groups_.shard_of(ref.block);
      const uint32_t place = plan::place_in_division(shard, groups_.leader(shard, row));
      if (place < part_->least || place > part_->most) return true;
    }
    return !values_.empty() && (values_[row] < filter_.least || values_[row] > filter_.most);
  }

 private:
  std::optional<model::RowPart> part_;
  plan::GroupedRows groups_;
  std::span<const uint32_t> values_;
  model::RowFilter filter_;
};

std::vector<uint64_t> row_numbers(const OpenSource& source, const std::vector<plan::RowRef>& refs) {
  std::vector<uint64_t> rows;
  rows.reserve(refs.size());
  for (const plan::RowRef& ref : refs) {
    OVERLORD_CHECK(ref.block < source.manifest.blocks.size() &&
                       ref.row < source.manifest.blocks[ref.block].rows,
                   "a row of the source");
    rows.push_back(source.manifest.blocks[ref.block].first_row + ref.row);
  }
  return rows;
}

std::string block_reason(const columnar::TokenBlock& block, uint32_t row) {
  for (const model::BadRow& bad : block.bad) {
    if (bad.index == row) return bad.reason;
  }
  return "bad row";
}

// The row's own tokens; without data where the block has none (blocks of tests).
model::TokenSpan span_of(const columnar::TokenBlock& block, uint32_t row) {
  model::TokenSpan span{nullptr, nullptr, block.counts[row], block.element};
  if (row >= block.begins.size()) return span;
  const uint64_t begin = block.begins[row];
  if (block.values.data != nullptr) {
    span.data = block.values.data + begin * model::element_bytes(block.element);
  }
  const auto* mask = reinterpret_cast<const uint8_t*>(block.mask.data);
  if (mask != nullptr) span.mask = mask + begin;
  return span;
}

// Bytes of a row's text; 0 where the block could not be read or holds ready tokens.
int64_t bytes_of(const columnar::TokenBlock* block, uint32_t row) {
  return block != nullptr && row < block->text_bytes.size() ? block->text_bytes[row] : 0;
}

// What media add to a window: placeholders to the documents, and columns of their own.
class WindowMedia {
 public:
  WindowMedia(const OpenSource& source, size_t rows) : media_(source.media.get()) {
    if (media_ == nullptr) return;
    counts_.assign(media_->fields().size(), std::vector<int64_t>(rows));
    units_ = counts_;
  }
  bool any() const { return media_ != nullptr; }

  std::span<const OpenMediaField> fields() const {
    return media_ == nullptr ? std::span<const OpenMediaField>() : media_->fields();
  }

  // The media of a row, or why it is bad.
  Result<PlannedMedia> planned(uint64_t row) const {
    return media_ == nullptr ? PlannedMedia() : media_->planned(row);
  }

  // They are those of the window's row `index`.
  void add(size_t index, const PlannedMedia& planned) {
    for (const PlannedBlob& blob : planned.blobs) {
      ++counts_[blob.field][index];
      units_[blob.field][index] += blob.plan.units;
    }
  }

  void finish(const model::Source& source, model::MetaWindow* window) {
    for (size_t i = 0; i < counts_.size(); ++i) {
      const model::MediaField& field = source.media[media_->fields()[i].number];
      window->columns.push_back({model::count_column(field), std::move(counts_[i])});
      window->columns.push_back({model::units_column(field), std::move(units_[i])});
    }
  }

 private:
  const OpenMedia* media_;
  std::vector<std::vector<int64_t>> counts_;  // [field][row of the window]
  std::vector<std::vector<int64_t>> units_;
};

// Length and loss spans of a row, the window's number `index`, whose own tokens are `raw`; or why
// it is bad. `raw` needs data only where media stand in the text.
Status add_document(const model::Source& source, uint32_t index, uint64_t row,
                    const model::TokenSpan& raw, bool with_spans, WindowMedia* media,
                    model::MetaWindow* window) {
  OVERLORD_TRY(const PlannedMedia planned, media->planned(row));
  if (with_spans) {
    OVERLORD_TRY(const std::vector<DocumentPart> parts, lay_out(media->fields(), planned, raw));
    add_loss_spans(source, planned, parts, raw.mask, &window->spans);
  }
  OVERLORD_CHECK(raw.count > 0, "a document has tokens");
  media->add(index, planned);
  window->tokens[index] = planned.length(raw.count) + special_tokens(source);
  return {};
}

// Where the group of every row ends.
void add_groups(const OpenSource& source, const std::vector<plan::RowRef>& rows,
                const std::vector<uint64_t>& numbers, model::MetaWindow* window) {
  if (!source.spec.groups.declared()) return;
  const plan::GroupedRows groups(source.spec, source.manifest);
  window->group_ends.resize(rows.size());
  for (size_t i = rows.size(); i-- > 0;) {
    const bool goes_on = i + 1 < rows.size() && numbers[i + 1] == numbers[i] + 1 &&
                         groups.joins(groups.shard_of(rows[i + 1].block), numbers[i + 1]);
    window->group_ends[i] = goes_on ? window->group_ends[i + 1] : static_cast<uint32_t>(i + 1);
  }
}

// What a posted window promises whoever reads it (law 4).
void check_window(const std::vector<plan::RowRef>& rows, const model::MetaWindow& window) {
  OVERLORD_CHECK(window.tokens.size() == rows.size(), "a length for every row");
  OVERLORD_CHECK(window.span_ends.empty() || (window.span_ends.size() == rows.size() &&
                                              window.span_ends.back() == window.spans.size()),
                 "a masked window ends the spans of every row");
  for (const model::BadRow& bad : window.bad) {
    OVERLORD_CHECK(bad.index < rows.size() && window.tokens[bad.index] == 0,
                   "a bad row has no tokens");
  }
}

}  // namespace

model::MetaWindow window_from_index(const OpenSource& source, const SampleId& first,
                                    const std::vector<plan::RowRef>& rows) {
  model::MetaWindow window;
  window.first = first;
  window.tokens.resize(rows.size());
  const std::vector<uint64_t> numbers = row_numbers(source, rows);
  const SubSourceFilter filter(source);
  WindowMedia media(source, rows.size());
  const auto close_row = [&] {
    if (media.any()) window.span_ends.push_back(static_cast<uint32_t>(window.spans.size()));
  };
  add_columns(source, numbers, &window);
  for (uint32_t i = 0; i < rows.size(); ++i, close_row()) {
    const uint64_t row = numbers[i];
    if (filter.passes_over(rows[i], row)) {
      window.tokens[i] = model::kPassedOver;
      continue;
    }
    const uint32_t length = source.manifest.lengths[row];
    const auto where = [&] {
      return columnar::row_name(source.spec, source.manifest, rows[i].block, rows[i].row);
    };
    if (length == model::kBadRow || length == 0) {
      std::string reason =
          length == 0 ? columnar::empty_row(where() + ": no tokens") : index_reason(source, row);
      set_aside(source, i, row, std::move(reason), &window);
      continue;
    }
    const model::TokenSpan raw{nullptr, nullptr, length, model::Element::kI32};
    const Status added = add_document(source.spec, i, row, raw, media.any(), &media, &window);
    if (!added.ok()) window.bad.push_back({i, where() + ": " + added.message()});
  }
  media.finish(source.spec, &window);
  add_groups(source, rows, numbers, &window);
  check_window(rows, window);
  return window;
}

model::MetaWindow window_from_blocks(const OpenSource& source, const SampleId& first,
                                     const std::vector<plan::RowRef>& rows,
                                     const std::map<uint32_t, TokenBlockPtr>& blocks,
                                     const std::map<uint32_t, std::string>& broken) {
  model::MetaWindow window;
  window.first = first;
  window.tokens.resize(rows.size());
  WindowMedia media(source, rows.size());
  const bool masked = model::carries_mask(source.spec) || media.any();
  std::vector<int64_t> bytes;
  const std::vector<uint64_t> numbers = row_numbers(source, rows);
  const SubSourceFilter filter(source);
  add_columns(source, numbers, &window);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const plan::RowRef ref = rows[i];
    if (filter.passes_over(ref, numbers[i])) {
      window.tokens[i] = model::kPassedOver;
      if (masked) window.span_ends.push_back(static_cast<uint32_t>(window.spans.size()));
      continue;
    }
    const auto condemned = broken.find(ref.block);
    const columnar::TokenBlock* block =
        condemned == broken.end() ? blocks.at(ref.block).get() : nullptr;
    const uint32_t count = block ? block->counts[ref.row] : model::kBadRow;
    if (count == model::kBadRow) {
      set_aside(source, i, numbers[i], block ? block_reason(*block, ref.row) : condemned->second,
                &window);
    } else if (count == 0) {
      const std::string where =
          columnar::row_name(source.spec, source.manifest, ref.block, ref.row);
      set_aside(source, i, numbers[i], columnar::empty_row(where + ": no tokens"), &window);
    } else if (const std::string* reason = known_bad(source, numbers[i])) {
      window.bad.push_back({i, *reason});  // its metadata is
    } else {
      const Status added = add_document(source.spec, i, numbers[i], span_of(*block, ref.row),
                                        masked, &media, &window);
      if (!added.ok()) {
        const std::string where =
            columnar::row_name(source.spec, source.manifest, ref.block, ref.row);
        window.bad.push_back({i, where + ": " + added.message()});
      }
    }
    if (masked) window.span_ends.push_back(static_cast<uint32_t>(window.spans.size()));
    if (source.spec.count_bytes) bytes.push_back(bytes_of(block, ref.row));
  }
  if (source.spec.count_bytes) window.columns.push_back({model::kBytesColumn, std::move(bytes)});
  media.finish(source.spec, &window);
  add_groups(source, rows, numbers, &window);
  check_window(rows, window);
  return window;
}

}  // namespace overlord::loader
