#include "overlord/columnar/formats/mds/mds_rows.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "overlord/columnar/formats/mds/mds_values.h"
#include "overlord/columnar/formats/tar/tar_rows.h"
#include "overlord/columnar/schema_text.h"
#include "overlord/columnar/text_rules.h"
#include "overlord/model/manifest.h"
#include "overlord/model/token_span.h"
#include "overlord/model/widen.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using model::Element;
using runtime::quote;

std::string over_limit(const model::Source& source, const MdsColumn& column,
                       std::string_view value) {
  const uint64_t most = source.limits.max_document_bytes;
  if (value.size() <= most) return {};
  return "column " + quote(column.name) + " has " + std::to_string(value.size()) +
         " bytes, over limits.max_document (" + std::to_string(most) + ")";
}

// Rows with a schema: their columns as one JSON object.
class Records {
 public:
  explicit Records(const MdsColumns& columns) : columns_(columns) {}

  // What is wrong, or empty; a Status where memory is lacking.
  Result<std::string> append(const std::vector<std::string_view>& values, std::string* out) {
    for (size_t i = 0; i < values.size(); ++i) {
      const MdsColumn& column = columns_.all[columns_.rows[i]];
      out->push_back(i == 0 ? '{' : ',');
      append_json_string(column.name, out);
      out->push_back(':');
      if (column.encoding == "json") {
        OVERLORD_TRY(const std::string fault, check_value(column, values[i]));
        if (!fault.empty()) return fault;
        out->append(values[i]);
      } else if (column.encoding == "str") {
        if (!is_valid_utf8(values[i]))
          return "column " + quote(column.name) + " is not valid UTF-8";
        append_json_string(values[i], out);
      } else {
        out->append(mds_integer(column, values[i]));
      }
    }
    out->push_back('}');
    return std::string();
  }

 private:
  // One value and no more: it must not end where the object around it goes on.
  Result<std::string> check_value(const MdsColumn& column, std::string_view value) {
    const auto error = parser_.parse(simdjson::padded_string(value)).error();
    if (error == simdjson::MEMALLOC) {
      return Status(Code::kResource,
                    "no memory to parse a value of " + std::to_string(value.size()) + " bytes");
    }
    if (!error) return std::string();
    return "column " + quote(column.name) + ": invalid JSON: " + simdjson::error_message(error);
  }

  const MdsColumns& columns_;
  simdjson::dom::parser parser_;
};

std::string fault_of(const model::Source& source, const MdsColumns& columns, const MdsRow& row) {
  std::string fault;
  for (size_t i = 0; fault.empty() && i < row.values.size(); ++i) {
    fault = over_limit(source, columns.all[columns.rows[i]], row.values[i]);
  }
  return fault;
}

Result<RowBlock> text_rows_of(const model::Source& source, const MdsColumns& columns,
                              const std::vector<MdsRow>& rows, const RowNamer& name) {
  const bool record = source.schema.declared();
  std::string place = "columns";
  if (!record) place = "column " + quote(columns.all[columns.rows.front()].name);
  SampleRows out(source, name, place);
  Records maker(columns);
  std::vector<std::string> records(record ? rows.size() : 0);
  std::vector<std::string> faults(rows.size());
  size_t longest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].fault.empty()) continue;
    faults[i] = fault_of(source, columns, rows[i]);
    if (record && faults[i].empty()) {
      OVERLORD_TRY(faults[i], maker.append(rows[i].values, &records[i]));
      longest = std::max(longest, records[i].size());
    } else if (!record) {
      longest = std::max(longest, rows[i].values.front().size());
    }
  }
  OVERLORD_RETURN_IF_ERROR(out.prepare(longest));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].fault.empty()) {
      out.add_bad(rows[i].fault);
    } else if (!faults[i].empty()) {
      out.add_bad(name(static_cast<uint32_t>(i), faults[i]));
    } else {
      out.add(record ? std::string_view(records[i]) : rows[i].values.front(), {}, false);
    }
  }
  RowBlock block = out.take();
  block.columns.clear();  // metadata are columns of their own, and the index has them
  return block;
}

// Numbers of 8 bits to 64, as they lie in a shard, to int64.
void widen_numbers(const MdsNumbers& from, int64_t* out) {
  const auto count = static_cast<uint32_t>(from.bytes.size() / model::element_bytes(from.element));
  std::vector<int64_t> aligned(from.bytes.size() / sizeof(int64_t) + 1);
  std::memcpy(aligned.data(), from.bytes.data(), from.bytes.size());
  model::widen({aligned.data(), nullptr, count, from.element}, 0, count, out);
}

class TokenRows {
 public:
  TokenRows(const model::Source& source, const MdsColumns& columns, const RowNamer& name)
      : source_(source), columns_(columns), name_(name) {}

  Result<RowBlock> take(const std::vector<MdsRow>& rows, const MdsBuffer& make_buffer) {
    std::vector<MdsNumbers> tokens(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      std::string fault = rows[i].fault;
      if (fault.empty()) {
        fault = fault_of_tokens(rows[i], &tokens[i]);
        if (!fault.empty()) fault = name_(static_cast<uint32_t>(i), fault);
      }
      if (fault.empty()) {
        total_ += count_of(tokens[i]);
      } else {
        out_.tokens.bad.push_back({static_cast<uint32_t>(i), std::move(fault)});
        tokens[i] = {};
      }
    }
    // A column of arrays that say their own types may have several.
    const auto element = mds_element(columns_.all[columns_.rows[0]], source_.raw.element);
    out_.tokens.element = element.value_or(Element::kI64);
    OVERLORD_RETURN_IF_ERROR(copy(rows, tokens, make_buffer));
    check_token_ids(source_.vocabulary, name_, &out_.tokens);
    return std::move(out_);
  }

 private:
  static uint64_t count_of(const MdsNumbers& numbers) {
    return numbers.bytes.size() / model::element_bytes(numbers.element);
  }

  bool has_mask() const { return columns_.rows.size() > 1; }

  std::string fault_of_tokens(const MdsRow& row, MdsNumbers* tokens) const {
    std::string fault = fault_of(source_, columns_, row);
    const MdsColumn& column = columns_.all[columns_.rows[0]];
    if (fault.empty()) fault = take_mds_numbers(column, source_.raw.element, row.values[0], tokens);
    if (!fault.empty()) return fault;
    const uint64_t count = count_of(*tokens);
    if (count == 0) return empty_row("column " + quote(column.name) + " has no tokens");
    if (!has_mask()) return {};
    const MdsColumn& mask_column = columns_.all[columns_.rows[1]];
    MdsNumbers mask;
    fault = take_mds_numbers(mask_column, std::nullopt, row.values[1], &mask);
    if (!fault.empty()) return fault;
    const std::string where = "mask column " + quote(mask_column.name);
    if (count_of(mask) != count) {
      return where + " has " + std::to_string(count_of(mask)) + " values for " +
             std::to_string(count) + " tokens";
    }
    std::vector<int64_t> values(count);
    widen_numbers(mask, values.data());
    const auto wrong =
        std::find_if(values.begin(), values.end(), [](int64_t v) { return v != 0 && v != 1; });
    if (wrong == values.end()) return {};
    return where + "[" + std::to_string(wrong - values.begin()) + "] is neither 0 nor 1";
  }

  Status copy(const std::vector<MdsRow>& rows, const std::vector<MdsNumbers>& tokens,
              const MdsBuffer& make_buffer) {
    const uint64_t width = model::element_bytes(out_.tokens.element);
    runtime::Buffer values, mask;
    if (total_ > 0) {
      OVERLORD_TRY(values, make_buffer(total_ * width));
    }
    if (total_ > 0 && has_mask()) {
      OVERLORD_TRY(mask, make_buffer(total_));
    }
    uint64_t done = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint64_t count = count_of(tokens[i]);
      out_.tokens.begins.push_back(done);
      out_.tokens.counts.push_back(count == 0 ? model::kBadRow : static_cast<uint32_t>(count));
      if (count == 0) continue;
      char* const to = values.data.get() + done * width;
      if (tokens[i].element == out_.tokens.element) {
        std::memcpy(to, tokens[i].bytes.data(), count * width);
      } else {
        widen_numbers(tokens[i], reinterpret_cast<int64_t*>(to));
      }
      if (has_mask()) copy_mask(rows[i], mask.data.get() + done, count);
      done += count;
    }
    out_.tokens.values = values.view();
    if (has_mask()) out_.tokens.mask = mask.view();
    return {};
  }

  void copy_mask(const MdsRow& row, char* out, uint64_t count) const {
    MdsNumbers mask;
    take_mds_numbers(columns_.all[columns_.rows[1]], std::nullopt, row.values[1], &mask);
    std::vector<int64_t> values(count);
    widen_numbers(mask, values.data());
    std::copy(values.begin(), values.end(), out);
  }

  const model::Source& source_;
  const MdsColumns& columns_;
  const RowNamer& name_;
  uint64_t total_ = 0;
  RowBlock out_;
};

}  // namespace

Result<RowBlock> mds_rows(const model::Source& source, const MdsColumns& columns,
                          const std::vector<MdsRow>& rows, const RowNamer& name,
                          const MdsBuffer& buffer) {
  if (!source.text_column.empty()) return text_rows_of(source, columns, rows, name);
  return TokenRows(source, columns, name).take(rows, buffer);
}

}  // namespace overlord::columnar
