#include "overlord/columnar/formats/arrow/arrow_rows.h"

#include <cstring>
#include <optional>

#include "overlord/columnar/formats/arrow/column_types.h"
#include "overlord/columnar/text_rules.h"
#include "overlord/model/manifest.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

// Reasons are made only when there is one: this runs for every row.
std::string fault_of_text(std::string_view text, const model::Source& source) {
  const auto column = [&] { return "column " + quote(source.text_column); };
  if (text.size() > source.limits.max_document_bytes) {
    return column() + " has " + std::to_string(text.size()) + " bytes, over limits.max_document (" +
           std::to_string(source.limits.max_document_bytes) + ")";
  }
  if (!is_valid_utf8(text)) return column() + " is not valid UTF-8";
  if (is_blank(text)) return empty_row("empty text in " + column());
  return {};
}

bool has_null(const arrow::Array& values, int64_t begin, int64_t count, int64_t* where) {
  if (values.null_count() == 0) return false;
  for (int64_t i = begin; i < begin + count; ++i) {
    if (!values.IsNull(i)) continue;
    *where = i - begin;
    return true;
  }
  return false;
}

Result<Element> element_of(arrow::Type::type type) {
  switch (type) {
    case arrow::Type::INT8:
      return Element::kI8;
    case arrow::Type::UINT8:
      return Element::kU8;
    case arrow::Type::INT16:
      return Element::kI16;
    case arrow::Type::UINT16:
      return Element::kU16;
    case arrow::Type::INT32:
      return Element::kI32;
    case arrow::Type::UINT32:
      return Element::kU32;
    case arrow::Type::INT64:
      return Element::kI64;
    case arrow::Type::UINT64:
      return Element::kU64;
    default:
      return bad_data("tokens are not integers");
  }
}

// Copies count mask values to `out` as 0 and 1. The index of the first that is neither, or -1.
template <typename T>
int64_t copy_numbers(const uint8_t* data, int64_t begin, int64_t count, char* out) {
  const T* values = reinterpret_cast<const T*>(data) + begin;
  int64_t wrong = -1;
  for (int64_t i = count - 1; i >= 0; --i) {
    out[i] = static_cast<char>(values[i] & 1);
    if (values[i] > 1) wrong = i;
  }
  return wrong;
}

int64_t copy_mask(const arrow::Array& values, int64_t begin, int64_t count, char* out) {
  const uint8_t* data = values.data()->buffers[1]->data();
  begin += values.data()->offset;
  if (values.type_id() == arrow::Type::BOOL) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<char>((data[(begin + i) / 8] >> ((begin + i) % 8)) & 1);
    }
    return -1;
  }
  switch (values.type()->byte_width()) {  // unsigned: a negative number is over 1 too
    case 1:
      return copy_numbers<uint8_t>(data, begin, count, out);
    case 2:
      return copy_numbers<uint16_t>(data, begin, count, out);
    case 4:
      return copy_numbers<uint32_t>(data, begin, count, out);
    default:
      return copy_numbers<uint64_t>(data, begin, count, out);
  }
}

// Lists of whatever kind: where in the values each row begins, and how many are its.
class Lists {
 public:
  explicit Lists(const arrow::Array& array) : array_(array), kind_(array.type_id()) {
    switch (kind_) {
      case arrow::Type::LIST:
        values_ = as<arrow::ListArray>().values();
        return;
      case arrow::Type::LARGE_LIST:
        values_ = as<arrow::LargeListArray>().values();
        return;
      default:
        values_ = as<arrow::FixedSizeListArray>().values();
    }
  }

  const arrow::Array& values() const { return *values_; }
  int64_t rows() const { return array_.length(); }
  bool is_null(int64_t i) const { return array_.IsNull(i); }
  int64_t begin(int64_t i) const {
    if (kind_ == arrow::Type::LIST) return as<arrow::ListArray>().value_offset(i);
    if (kind_ == arrow::Type::LARGE_LIST) return as<arrow::LargeListArray>().value_offset(i);
    return as<arrow::FixedSizeListArray>().value_offset(i);
  }
  int64_t count(int64_t i) const {
    if (kind_ == arrow::Type::LIST) return as<arrow::ListArray>().value_length(i);
    if (kind_ == arrow::Type::LARGE_LIST) return as<arrow::LargeListArray>().value_length(i);
    return as<arrow::FixedSizeListArray>().value_length(i);
  }

 private:
  template <typename ArrayType>
  const ArrayType& as() const {
    return static_cast<const ArrayType&>(array_);
  }

  const arrow::Array& array_;
  const arrow::Type::type kind_;
  std::shared_ptr<arrow::Array> values_;
};

class TokenRows {
 public:
  TokenRows(const Lists& tokens, const Lists* mask, const model::Source& source)
      : tokens_(tokens), mask_(mask), source_(source) {}

  // What is wrong with row i, or empty; its mask goes where its tokens are.
  std::string take(int64_t i, size_t width, char* mask_out) const {
    const auto column = [&] { return "column " + quote(source_.token_column); };
    if (tokens_.is_null(i)) return column() + " is null";
    const int64_t begin = tokens_.begin(i), count = tokens_.count(i);
    if (count == 0) return empty_row(column() + " is an empty list");
    if (static_cast<uint64_t>(count) * width > source_.limits.max_document_bytes ||
        count >= model::kBadRow) {
      return column() + " has " + std::to_string(count) + " tokens, over limits.max_document (" +
             std::to_string(source_.limits.max_document_bytes) + ")";
    }
    int64_t where = 0;
    if (has_null(tokens_.values(), begin, count, &where)) {
      return column() + "[" + std::to_string(where) + "] is null";
    }
    return mask_ == nullptr ? std::string() : take_mask(i, count, mask_out + begin);
  }

 private:
  std::string take_mask(int64_t i, int64_t count, char* out) const {
    const auto column = [&] { return "mask column " + quote(source_.mask_column); };
    if (mask_->is_null(i)) return column() + " is null";
    const int64_t begin = mask_->begin(i);
    if (mask_->count(i) != count) {
      return column() + " has " + std::to_string(mask_->count(i)) + " values for " +
             std::to_string(count) + " tokens";
    }
    int64_t where = 0;
    if (has_null(mask_->values(), begin, count, &where)) {
      return column() + "[" + std::to_string(where) + "] is null";
    }
    where = copy_mask(mask_->values(), begin, count, out);
    if (where < 0) return {};
    return column() + "[" + std::to_string(where) + "] is neither 0 nor 1";
  }

  const Lists& tokens_;
  const Lists* const mask_;
  const model::Source& source_;
};

template <typename ArrayType>
void take_texts(const arrow::ChunkedArray& column, const model::Source& source,
                const RowNamer& name, TextBlock* out) {
  int64_t total = 0;
  for (const auto& chunk : column.chunks()) {
    total += static_cast<const ArrayType&>(*chunk).total_values_length();
  }
  out->rows.bytes.reserve(static_cast<size_t>(total));
  uint32_t row = 0;
  for (const auto& chunk : column.chunks()) {
    const auto& texts = static_cast<const ArrayType&>(*chunk);
    for (int64_t i = 0; i < texts.length(); ++i, ++row) {
      const std::string_view text = texts.GetView(i);
      const std::string fault = texts.IsNull(i) ? "column " + quote(source.text_column) + " is null"
                                                : fault_of_text(text, source);
      if (fault.empty()) {
        out->rows.bytes.append(text);
      } else {
        out->bad.push_back({row, name(row, fault)});
      }
      out->rows.ends.push_back(out->rows.bytes.size());
    }
  }
}

}  // namespace

TextBlock text_rows(const arrow::ChunkedArray& column, const model::Source& source,
                    const RowNamer& name) {
  TextBlock out;
  out.rows.ends.reserve(static_cast<size_t>(column.length()));
  if (is_large(*column.type())) {
    take_texts<arrow::LargeBinaryArray>(column, source, name, &out);
  } else {
    take_texts<arrow::BinaryArray>(column, source, name, &out);
  }
  return out;
}

Result<TokenBlock> token_rows(const arrow::Array& token_lists, const arrow::Array* mask_lists,
                              std::shared_ptr<const void> holder, const model::Source& source,
                              const RowNamer& name, const BufferMaker& make_buffer) {
  TokenBlock out;
  const Lists tokens(token_lists);
  const arrow::Array& values = tokens.values();
  OVERLORD_TRY(out.element, element_of(values.type_id()));
  const size_t width = element_bytes(out.element);
  const auto count = static_cast<size_t>(values.length());
  if (count > 0) {
    const uint8_t* data =
        values.data()->buffers[1]->data() + static_cast<size_t>(values.data()->offset) * width;
    out.values = {std::move(holder), reinterpret_cast<const char*>(data), count * width};
  }
  runtime::Buffer mask_bytes;
  std::optional<Lists> mask;
  if (mask_lists != nullptr) {
    mask.emplace(*mask_lists);
    OVERLORD_TRY(mask_bytes, make_buffer(count));
    std::memset(mask_bytes.data.get(), 0, count);  // bad rows leave theirs untouched
    out.mask = mask_bytes.view();
  }
  const TokenRows rows(tokens, mask ? &*mask : nullptr, source);
  out.begins.resize(static_cast<size_t>(tokens.rows()));
  out.counts.resize(out.begins.size());
  for (size_t row = 0; row < out.counts.size(); ++row) {
    const auto i = static_cast<int64_t>(row);
    const std::string fault = rows.take(i, width, mask_bytes.data.get());
    if (!fault.empty()) {
      const auto index = static_cast<uint32_t>(row);
      out.bad.push_back({index, name(index, fault)});
      out.counts[row] = model::kBadRow;
      continue;
    }
    out.begins[row] = static_cast<uint64_t>(tokens.begin(i));
    out.counts[row] = static_cast<uint32_t>(tokens.count(i));
  }
  check_token_ids(source.vocabulary, name, &out);
  return out;
}

}  // namespace overlord::columnar
