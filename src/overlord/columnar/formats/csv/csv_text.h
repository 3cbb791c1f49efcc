// CSV as RFC 4180 has it: fields between commas (or tabs), quotes around fields that hold commas,
// quotes or line ends, a doubled quote for a quote. What it does not say: a quote inside a field
// that began without one is a letter, and lines without a letter are no records.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace overlord::columnar {

char csv_delimiter(std::string_view uri);  // by suffix: a tab for .tsv, else a comma

// Where records begin and end, in a text that comes in pieces and may begin with a byte order mark.
class CsvScanner {
 public:
  using Begin = std::function<void(uint64_t offset)>;
  // `offset`: behind its line end; `size_bytes`: without it.
  using End = std::function<void(uint64_t offset, uint64_t size_bytes)>;
  CsvScanner(char delimiter, Begin begin, End end)
      : delimiter_(delimiter), begin_(std::move(begin)), end_(std::move(end)) {}

  // The next piece of the text, which begins at `offset`.
  void add(std::string_view piece, uint64_t offset);
  // The text ended: the bytes of a record that lacks its line end; 0: there is none.
  uint64_t rest() const { return in_record_ && !blank_ ? size_bytes_ : 0; }

 private:
  void step(char c, uint64_t offset);

  const char delimiter_;
  const Begin begin_;
  const End end_;
  bool in_record_ = false;
  bool blank_ = true;
  bool field_begins_ = true;
  bool quoted_ = false;
  bool closed_ = false;  // the last letter was a quote that ends a field, or is the first of two
  uint64_t size_bytes_ = 0;
};

// The fields of a record, without its line end. What is wrong with it, or empty.
std::string split_csv(std::string_view record, char delimiter, std::vector<std::string>* fields);

}  // namespace overlord::columnar
