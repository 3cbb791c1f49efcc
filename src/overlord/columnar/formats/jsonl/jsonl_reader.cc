#include "overlord/columnar/formats/jsonl/jsonl_reader.h"

#include <algorithm>
#include <utility>

#include "overlord/columnar/formats/jsonl/json_elements.h"
#include "overlord/columnar/formats/jsonl/jsonl_rows.h"
#include "overlord/columnar/streams/text_block_reader.h"

namespace overlord::columnar {
namespace {

static_assert(kTextPadding >= kLinePadding);

// Calls record(text) for each line that is not blank.
template <typename Record>
void for_each_line(std::string_view text, Record record) {
  while (!text.empty()) {
    const size_t newline = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, newline);
    if (content.find_first_not_of(" \t\r") != std::string_view::npos) record(content);
    text.remove_prefix(std::min(newline + 1, text.size()));
  }
}

// The same for the elements of an array of which the block is a part.
template <typename Record>
Status for_each_element(std::string_view text, Record record) {
  size_t begin = 0;
  ElementScanner scanner(
      /*inside=*/true, [&](uint64_t offset) { begin = offset; },
      [&](uint64_t offset) { record(text.substr(begin, offset - begin)); });
  OVERLORD_RETURN_IF_ERROR(scanner.add(text, 0));
  return scanner.finish(text.size());
}

class JsonlReader final : public TextBlockReader {
 public:
  JsonlReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : TextBlockReader(std::move(file), source) {}

 protected:
  Result<RowBlock> parse(const BlockRequest& request, std::string_view head, std::string_view text,
                         size_t readable) const override {
    const bool elements = head == kJsonElements;
    const char* const end = text.data() + text.size() + readable;
    if (!elements && block(request.block).offset == 0 && text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
    }
    size_t records = 0, longest = 0;
    const auto measure = [&](std::string_view record) {
      ++records;
      longest = std::max(longest, record.size());
    };
    OVERLORD_RETURN_IF_ERROR(for_each_record(request, elements, text, measure));
    if (records != block(request.block).rows) {
      return other_rows(request, records, elements ? "elements" : "lines");
    }
    const auto name = [&](uint32_t row, std::string_view what) {
      return reason(request.block, row, what);
    };
    JsonRowParser rows(source_, request.named_media, name);
    OVERLORD_RETURN_IF_ERROR(rows.prepare(longest));
    if (source_.text_column.empty()) {
      // "1," is the shortest way to write a number, and the last of an array needs no comma.
      const size_t most = text.size() / 2 + records;
      OVERLORD_TRY(const runtime::Buffer tokens, buffer(request, most * sizeof(int32_t)));
      OVERLORD_TRY(const runtime::Buffer mask,
                   buffer(request, source_.mask_column.empty() ? 0 : most));
      rows.use_buffers(tokens, mask);
    }
    OVERLORD_RETURN_IF_ERROR(for_each_record(request, elements, text, [&](std::string_view record) {
      const auto behind = static_cast<size_t>(end - (record.data() + record.size()));
      rows.add(record, behind >= kLinePadding);
    }));
    RowBlock out = rows.take();
    if (!out.is_text) keep_wanted(request.rows, &out.tokens);
    return out;
  }

 private:
  template <typename Record>
  Status for_each_record(const BlockRequest& request, bool elements, std::string_view text,
                         Record record) const {
    if (!elements) {
      for_each_line(text, record);
      return {};
    }
    const Status parted = for_each_element(text, record);
    return parted.ok() ? parted : block_error(request.block, parted.message());
  }
};

}  // namespace

Result<std::unique_ptr<BlockReader>> make_jsonl_reader(std::shared_ptr<const IndexFile> file,
                                                       const model::Source& source) {
  return std::unique_ptr<BlockReader>(std::make_unique<JsonlReader>(std::move(file), source));
}

}  // namespace overlord::columnar
