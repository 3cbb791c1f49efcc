// The frames between a TokenizerPool and its worker processes, little endian:
//   request   'OVTK' u32 rows  u64 bytes   u64 ends[rows]  utf-8 text[bytes]
//   answer    'OVTR' u32 rows  u64 tokens  u64 ends[rows]  i32 tokens[tokens]
//   masked    'OVTM' as an answer, then u8 mask[tokens], u32 length, and the rows that came out
//             without tokens in so many bytes: u32 row, u32 length, utf-8 reason, rows rising
//   progress  'OVTP' u32 rows done; before a masked answer, any number of them
//   error     'OVTE' u32 length, utf-8 message
//   greeting  'OVTH' u32 length, three lines: version, digest, vocab_size; first of all
// Pure functions over bytes that came from another process: nothing in them is believed before it
// is checked, and nothing is allocated for a size that was not. They never read or write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"

namespace overlord::workers {

// What a worker says of itself.
struct TokenizerGreeting {
  std::string version;
  std::string digest;
  uint64_t vocab_size = 0;  // every token is below it; 0: not told, not checked

  friend bool operator==(const TokenizerGreeting&, const TokenizerGreeting&) = default;
};

enum class TokenizerFrame { kRows, kMaskedRows, kProgress, kError, kGreeting };

// Every frame of a worker begins with these eight bytes.
struct TokenizerFrameHead {
  TokenizerFrame kind = TokenizerFrame::kError;
  uint32_t count = 0;  // rows, or bytes of text
};

inline constexpr size_t kTokenizerHeadBytes = 8;
inline constexpr uint32_t kTokenizerTextBytes = 64 * 1024;  // the longest message or greeting
inline constexpr uint32_t kBadRowReasonBytes = 4096;        // the longest reason of a row

std::string tokenizer_request_head(const runtime::TextRows& rows);

// kBadData for a magic that is none, and for a text longer than kTokenizerTextBytes.
Result<TokenizerFrameHead> parse_tokenizer_head(std::string_view bytes);

// kBadData unless the text is three lines, the last of them a count.
Result<TokenizerGreeting> parse_tokenizer_greeting(std::string_view text);

// Before anything is allocated for an answer: its sizes against those of the request.
// `template_bytes`: of the text that a chat template may add to every row.
Status check_answer_sizes(const runtime::TextRows& request, uint32_t rows, uint64_t tokens,
                          uint64_t template_bytes = 0);

// After it was read: ends that rise to the number of tokens, tokens of the vocabulary.
Status check_answer_values(const runtime::EncodedRows& answer, uint64_t vocab_size);

// Of a masked answer: rows that came out without tokens, of which `answer` has `rows`.
Result<std::vector<model::BadRow>> parse_bad_rows(std::string_view bytes, uint32_t rows);

}  // namespace overlord::workers
