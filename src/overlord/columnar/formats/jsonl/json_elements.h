// ElementScanner: where the elements of a JSON array begin and end, in a text that comes in pieces,
// for files that are one array of rows. Only brackets and strings are looked at: whether an element
// is good JSON is found out when it is parsed.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "overlord/base/status.h"

namespace overlord::columnar {

class ElementScanner {
 public:
  using At = std::function<void(uint64_t offset)>;
  // `inside`: the text begins behind the array's `[`, and may end anywhere.
  ElementScanner(bool inside, At begin, At end)
      : inside_(inside),
        state_(inside ? State::kBetween : State::kBefore),
        begin_(std::move(begin)),
        end_(std::move(end)) {}

  // The next piece of the text, which begins at `offset`.
  Status add(std::string_view piece, uint64_t offset);
  // The text ends at `offset`.
  Status finish(uint64_t offset);

 private:
  // kNested: in an object or array; kPlain: in a string, a number or a word.
  enum class State : uint8_t { kBefore, kBetween, kNested, kPlain, kAfter };

  Status step(char c, uint64_t offset);
  Status between(char c, uint64_t offset);
  bool in_string(char c);  // whether c belongs to a string

  const bool inside_;
  State state_;
  const At begin_;
  const At end_;
  uint64_t depth_ = 0;
  bool string_ = false;
  bool escaped_ = false;
};

// Whether a file of this name may be one array, and a text is one: its first byte that is no space.
bool may_be_array(std::string_view uri);
bool begins_array(std::string_view text);

}  // namespace overlord::columnar
