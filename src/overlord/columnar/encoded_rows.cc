#include "overlord/columnar/encoded_rows.h"

#include <algorithm>
#include <memory>
#include <string>

#include "overlord/columnar/branches.h"
#include "overlord/columnar/text_rules.h"

namespace overlord::columnar {
std::string token_fault(const model::Source& source, const int32_t* tokens, uint64_t count) {
  if (count == 0) return empty_row("no tokens");
  if (count >= model::kBadRow) return "more tokens than a document may have";
  for (uint64_t i = 0; i < count; ++i) {
    if (tokens[i] < 0 ||
        (source.vocabulary > 0 && static_cast<uint32_t>(tokens[i]) >= source.vocabulary)) {
      return "token id " + std::to_string(tokens[i]) + " at " + std::to_string(i) +
             " is outside the vocabulary of " + std::to_string(source.vocabulary);
    }
  }
  return {};
}

std::string row_name(const model::Source& source, const model::SourceManifest& manifest,
                     uint32_t block, uint32_t row) {
  const model::BlockEntry& entry = manifest.blocks[block];
  const model::ShardEntry& shard = manifest.shards[entry.shard];
  return "source " + source.name + ", shard " + shard.uri + ", row " +
         row_text(source, entry.first_row - shard.first_row + row);
}

std::vector<uint32_t> text_bytes(const model::Source& source, const runtime::TextRows& rows) {
  std::vector<uint32_t> out;
  if (!source.count_bytes) return out;
  out.reserve(rows.rows());
  for (size_t row = 0; row < rows.rows(); ++row) {
    out.push_back(static_cast<uint32_t>(rows.row(row).size()));  // limits keep it below 2^32
  }
  return out;
}

TokenBlock to_token_block(const model::Source& source, const model::SourceManifest& manifest,
                          uint32_t block, runtime::EncodedRows encoded,
                          std::vector<model::BadRow> bad) {
  TokenBlock out;
  out.element = Element::kI32;
  auto held = std::make_shared<std::vector<int32_t>>(std::move(encoded.tokens));
  out.values = {held, reinterpret_cast<const char*>(held->data()), held->size() * sizeof(int32_t)};
  if (source.schema.masked && !encoded.mask.empty()) {
    auto mask = std::make_shared<std::vector<uint8_t>>(std::move(encoded.mask));
    out.mask = {mask, reinterpret_cast<const char*>(mask->data()), mask->size()};
  }
  const size_t rows = encoded.ends.size();
  out.begins.resize(rows);
  out.counts.resize(rows);
  std::vector<bool> is_bad(rows, false);
  for (const model::BadRow& row : bad) is_bad[row.index] = true;
  out.bad = std::move(bad);
  for (model::BadRow& row : encoded.bad) {
    if (is_bad[row.index]) continue;
    is_bad[row.index] = true;
    out.bad.push_back(
        {row.index, row_name(source, manifest, block, row.index) + ": " + std::move(row.reason)});
  }
  for (size_t row = 0; row < rows; ++row) {
    const uint64_t begin = row == 0 ? 0 : encoded.ends[row - 1];
    const uint64_t count = encoded.ends[row] - begin;
    out.begins[row] = begin;
    out.counts[row] = static_cast<uint32_t>(count);
    if (!is_bad[row]) {
      const std::string fault = token_fault(source, held->data() + begin, count);
      if (fault.empty()) continue;
      const auto index = static_cast<uint32_t>(row);
      out.bad.push_back({index, row_name(source, manifest, block, index) + ": " + fault});
    }
    out.counts[row] = model::kBadRow;
  }
  return out;
}

}  // namespace overlord::columnar
