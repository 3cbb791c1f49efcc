#include "overlord/workers/tokenizer_frames.h"

#include <algorithm>
#include <charconv>

#include "overlord/base/bytes.h"

namespace overlord::workers {
namespace {

constexpr std::string_view kRequestMagic = "OVTK";
constexpr std::string_view kRowsMagic = "OVTR";
constexpr std::string_view kMaskedRowsMagic = "OVTM";
constexpr std::string_view kProgressMagic = "OVTP";
constexpr std::string_view kErrorMagic = "OVTE";
constexpr std::string_view kGreetingMagic = "OVTH";

}  // namespace

std::string tokenizer_request_head(const runtime::TextRows& rows) {
  ByteWriter writer;
  writer.raw(kRequestMagic.data(), kRequestMagic.size());
  writer.u32(static_cast<uint32_t>(rows.rows()));
  writer.u64(rows.bytes.size());
  return writer.take();
}

Result<TokenizerFrameHead> parse_tokenizer_head(std::string_view bytes) {
  ByteReader reader(bytes);
  const std::string_view magic = reader.raw(kRequestMagic.size());
  TokenizerFrameHead head;
  head.count = reader.u32();
  OVERLORD_RETURN_IF_ERROR(reader.status("the head of a tokenizer frame"));
  if (magic == kRowsMagic || magic == kMaskedRowsMagic || magic == kProgressMagic) {
    head.kind = magic == kRowsMagic         ? TokenizerFrame::kRows
                : magic == kMaskedRowsMagic ? TokenizerFrame::kMaskedRows
                                            : TokenizerFrame::kProgress;
    return head;
  }
  if (magic == kErrorMagic) {
    head.kind = TokenizerFrame::kError;
  } else if (magic == kGreetingMagic) {
    head.kind = TokenizerFrame::kGreeting;
  } else {
    return bad_data("a tokenizer frame begins with none of the known marks");
  }
  if (head.count > kTokenizerTextBytes) {
    return bad_data("a tokenizer frame has a text that is too long: " + std::to_string(head.count));
  }
  return head;
}

Result<TokenizerGreeting> parse_tokenizer_greeting(std::string_view text) {
  const Status broken = bad_data("a greeting is not three lines: version, digest, vocab_size");
  const size_t first = text.find('\n');
  if (first == text.npos) return broken;
  const size_t second = text.find('\n', first + 1);
  if (second == text.npos) return broken;
  TokenizerGreeting greeting;
  greeting.version = text.substr(0, first);
  greeting.digest = text.substr(first + 1, second - first - 1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + second + 1, end, greeting.vocab_size);
  if (error != std::errc() || stop != end) return broken;
  return greeting;
}

Status check_answer_sizes(const runtime::TextRows& request, uint32_t rows, uint64_t tokens,
                          uint64_t template_bytes) {
  if (rows != request.rows()) {
    return bad_data("an answer has another number of rows than its request: " +
                    std::to_string(rows) + " for " + std::to_string(request.rows()));
  }
  const uint64_t most =
      16 * uint64_t{request.bytes.size()} + (64 + template_bytes) * uint64_t{request.rows()};
  if (tokens > most) {
    return bad_data("an answer has more tokens than its text can have: " + std::to_string(tokens) +
                    " for " + std::to_string(request.bytes.size()) + " bytes");
  }
  return {};
}

Status check_answer_values(const runtime::EncodedRows& answer, uint64_t vocab_size) {
  const uint64_t last = answer.ends.empty() ? 0 : answer.ends.back();
  if (last != answer.tokens.size() || !std::is_sorted(answer.ends.begin(), answer.ends.end())) {
    return bad_data("an answer's rows do not end where its tokens do: " + std::to_string(last) +
                    " and " + std::to_string(answer.tokens.size()));
  }
  const uint64_t limit = vocab_size == 0 ? uint64_t{1} << 31 : vocab_size;
  // A negative token is above every limit once it is unsigned.
  const auto stray =
      std::find_if(answer.tokens.begin(), answer.tokens.end(),
                   [limit](int32_t token) { return static_cast<uint32_t>(token) >= limit; });
  if (stray != answer.tokens.end()) {
    return bad_data("an answer has a token outside the vocabulary: " + std::to_string(*stray) +
                    " of " + std::to_string(limit));
  }
  if (std::any_of(answer.mask.begin(), answer.mask.end(), [](uint8_t one) { return one > 1; })) {
    return bad_data("an answer's mask has a value that is neither 0 nor 1");
  }
  return {};
}

Result<std::vector<model::BadRow>> parse_bad_rows(std::string_view bytes, uint32_t rows) {
  std::vector<model::BadRow> bad;
  ByteReader reader(bytes);
  while (reader.remaining() > 0) {
    const uint32_t row = reader.u32();
    const uint32_t length = reader.u32();
    if (reader.failed() || row >= rows || length > kBadRowReasonBytes ||
        (!bad.empty() && bad.back().index >= row)) {
      return bad_data("an answer's bad rows are not what its request has");
    }
    bad.push_back({row, std::string(reader.raw(length))});
  }
  OVERLORD_RETURN_IF_ERROR(reader.status("bad rows of an answer"));
  return bad;
}

}  // namespace overlord::workers
