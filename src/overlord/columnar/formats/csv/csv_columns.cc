#include "overlord/columnar/formats/csv/csv_columns.h"

#include "overlord/base/bytes.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

constexpr size_t kNamesShown = 20;

std::string shown(const std::vector<std::string>& header) {
  std::string names;
  for (size_t i = 0; i < header.size() && i < kNamesShown; ++i) {
    names += (i == 0 ? "" : ", ") + quote(header[i], 60);
  }
  return names + (header.size() > kNamesShown ? ", ..." : "");
}

size_t schema_columns(const model::Source& source) {
  return source.schema.declared() ? source.schema.columns.size() : 1;
}

class Finder {
 public:
  explicit Finder(const std::vector<std::string>& header) : header_(header) {}

  Result<uint32_t> find(const std::string& name, bool needed) const {
    uint32_t found = CsvColumns::kAbsent;
    for (size_t i = 0; i < header_.size(); ++i) {
      if (header_[i] != name) continue;
      if (found != CsvColumns::kAbsent) {
        return invalid_argument("its header has column " + quote(name) + " twice");
      }
      found = static_cast<uint32_t>(i);
    }
    if (found == CsvColumns::kAbsent && needed) {
      return invalid_argument("has no column " + quote(name) + "; its header has " +
                              shown(header_));
    }
    return found;
  }

 private:
  const std::vector<std::string>& header_;
};

}  // namespace

Result<CsvColumns> CsvColumns::find(const std::vector<std::string>& header,
                                    const model::Source& source) {
  const Finder finder(header);
  CsvColumns out;
  out.count = static_cast<uint32_t>(header.size());
  if (source.schema.declared()) {
    for (size_t i = 0; i < source.schema.columns.size(); ++i) {
      OVERLORD_TRY(const uint32_t at,
                   finder.find(source.schema.columns[i], i < source.schema.expected));
      out.text.push_back(at);
    }
  } else {
    OVERLORD_TRY(const uint32_t at, finder.find(source.text_column, true));
    out.text.push_back(at);
  }
  for (const model::MediaField& field : source.media) {
    std::vector<uint32_t>& names = out.media.emplace_back();
    bool some = false;
    for (const std::string& name : field.from) {
      OVERLORD_TRY(const uint32_t at, finder.find(name, false));
      names.push_back(at);
      some = some || at != kAbsent;
    }
    if (!some) OVERLORD_RETURN_IF_ERROR(finder.find(field.from.front(), true).status());
    for (const std::string* name : {&field.start, &field.end}) {
      out.parts.push_back(kAbsent);
      if (!name->empty()) {
        OVERLORD_TRY(out.parts.back(), finder.find(*name, true));
      }
    }
  }
  for (const std::string& name : source.metadata_columns) {
    OVERLORD_TRY(const uint32_t at, finder.find(name, true));
    out.metadata.push_back(at);
  }
  return out;
}

std::string CsvColumns::head() const {
  ByteWriter out;
  out.varint(count);
  const auto write = [&](const std::vector<uint32_t>& columns) {
    for (const uint32_t column : columns) out.varint(column);
  };
  write(text);
  for (const std::vector<uint32_t>& field : media) write(field);
  write(parts);
  write(metadata);
  return out.take();
}

bool CsvColumns::read(std::string_view head, const model::Source& source) {
  ByteReader in(head);
  count = static_cast<uint32_t>(in.varint());
  const auto take = [&](size_t columns, std::vector<uint32_t>* out) {
    for (size_t i = 0; i < columns; ++i) {
      const uint64_t at = in.varint();
      if (at >= count && at != kAbsent) return false;
      out->push_back(static_cast<uint32_t>(at));
    }
    return true;
  };
  if (!take(schema_columns(source), &text)) return false;
  for (const model::MediaField& field : source.media) {
    if (!take(field.from.size(), &media.emplace_back())) return false;
  }
  return take(2 * source.media.size(), &parts) &&
         take(source.metadata_columns.size(), &metadata) && !in.failed();
}

}  // namespace overlord::columnar
