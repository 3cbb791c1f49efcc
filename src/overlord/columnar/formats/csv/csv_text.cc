#include "overlord/columnar/formats/csv/csv_text.h"

#include "overlord/columnar/formats/jsonl/jsonl_reader.h"

namespace overlord::columnar {

char csv_delimiter(std::string_view uri) {
  for (const std::string_view coding : {".gz", ".zst"}) {
    if (uri.ends_with(coding)) uri.remove_suffix(coding.size());
  }
  return uri.ends_with(".tsv") ? '\t' : ',';
}

void CsvScanner::add(std::string_view piece, uint64_t offset) {
  for (size_t i = 0; i < piece.size(); ++i) {
    const uint64_t at = offset + i;
    const bool mark = at < kByteOrderMark.size() && piece[i] == kByteOrderMark[at];
    if (!mark) step(piece[i], at);
  }
}

void CsvScanner::step(char c, uint64_t offset) {
  if (!in_record_) {
    in_record_ = blank_ = field_begins_ = true;
    quoted_ = closed_ = false;
    size_bytes_ = 0;
    begin_(offset);
  }
  if (quoted_) {
    if (c == '"') {
      quoted_ = false;
      closed_ = true;
    }
  } else if (c == '\n') {
    in_record_ = false;
    if (!blank_) end_(offset + 1, size_bytes_);
    return;
  } else if (c == '"' && (field_begins_ || closed_)) {
    quoted_ = true;
    closed_ = field_begins_ = blank_ = false;
  } else {
    closed_ = false;
    field_begins_ = c == delimiter_;
    if (c != '\r') blank_ = false;
  }
  ++size_bytes_;
}

std::string split_csv(std::string_view record, char delimiter, std::vector<std::string>* fields) {
  fields->clear();
  if (record.ends_with('\r')) record.remove_suffix(1);
  size_t at = 0;
  while (true) {
    std::string& field = fields->emplace_back();
    if (at == record.size() || record[at] != '"') {
      const size_t end = std::min(record.find(delimiter, at), record.size());
      field = record.substr(at, end - at);
      at = end;
    } else {
      while (true) {
        const size_t quote = record.find('"', at + 1);
        if (quote == std::string_view::npos) return "a quote is not closed";
        field += record.substr(at + 1, quote - at - 1);
        at = quote + 1;
        if (at == record.size() || record[at] != '"') break;
        field += '"';
      }
      if (at < record.size() && record[at] != delimiter) {
        return "field " + std::to_string(fields->size()) + " goes on behind its closing quote";
      }
    }
    if (at == record.size()) return {};
    ++at;
  }
}

}  // namespace overlord::columnar
