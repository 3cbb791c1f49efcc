#include "overlord/columnar/formats/tokens/raw_layout.h"

#include <array>
#include <charconv>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using model::Element;

constexpr std::string_view kNumpyMagic{"\x93NUMPY", 6};
constexpr uint64_t kLlmcHeaderBytes = 1024;  // 256 numbers of 32 bits
constexpr size_t kMostDimensions = 32;

// What dev/data/data_common.py of llm.c writes.
struct LlmcKind {
  uint32_t magic;
  uint32_t version;
  Element element;
};
constexpr std::array kLlmcKinds = {LlmcKind{20240520, 1, Element::kU16},
                                   LlmcKind{20240801, 7, Element::kU32}};
constexpr uint32_t kLlmcQuestions = 20240522;  // multiple choice, no text to train on

Status refuse(const std::string& what) { return invalid_argument(what); }

// The header of an array: a dict as Python prints it, of which three entries count.
class NumpyHeader {
 public:
  explicit NumpyHeader(std::string_view text) : text_(text) {}

  struct Array {
    std::string type;
    bool column_major = false;
    std::vector<uint64_t> shape;
  };

  // Nothing: it is none.
  std::optional<Array> parse() {
    Array array;
    bool has_type = false, has_order = false, has_shape = false;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const auto key = quoted();
      if (!key || !take(':')) return std::nullopt;
      bool known = true;
      if (*key == "descr") {
        known = has_type = type(&array.type);
      } else if (*key == "fortran_order") {
        known = has_order = flag(&array.column_major);
      } else if (*key == "shape") {
        known = has_shape = shape(&array.shape);
      } else {
        return std::nullopt;
      }
      if (!known) return std::nullopt;
      if (!take(',') && peek() != '}') return std::nullopt;
    }
    if (!has_type || !has_order || !has_shape) return std::nullopt;
    return array;
  }

 private:
  char peek() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) {
      text_.remove_prefix(1);
    }
    return text_.empty() ? '\0' : text_.front();
  }

  bool take(char c) {
    if (peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  std::optional<std::string> quoted() {
    const char mark = peek();
    if (mark != '\'' && mark != '"') return std::nullopt;
    const size_t end = text_.find(mark, 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }

  // A list of fields is no type of one number; it is kept as it stands, for the message.
  bool type(std::string* out) {
    if (peek() == '[') {
      const size_t end = text_.find(']');
      if (end == std::string_view::npos) return false;
      *out = std::string(text_.substr(0, end + 1));
      text_.remove_prefix(end + 1);
      return true;
    }
    const auto value = quoted();
    if (value) *out = *value;
    return value.has_value();
  }

  bool flag(bool* out) {
    peek();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      *out = value;
      return true;
    }
    return false;
  }

  bool shape(std::vector<uint64_t>* out) {
    if (!take('(')) return false;
    while (!take(')')) {
      peek();
      uint64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || out->size() == kMostDimensions) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      out->push_back(size);
      if (!take(',') && peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
};

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

Result<Element> element_of_type(const std::string& type) {
  const std::string shown = "is a NumPy array of " + runtime::quote(type, 100);
  if (type.size() == 3 && (type[0] == '<' || type[0] == '|' || type[0] == '=')) {
    const auto element = model::element_named((type[1] == 'u'   ? "uint"
                                               : type[1] == 'i' ? "int"
                                                                : "no") +
                                              std::to_string((type[2] - '0') * 8));
    if (element) return *element;
  }
  if (type.starts_with('>')) {
    return refuse(shown +
                  ", which is big-endian; write it little-endian, with "
                  "array.astype(array.dtype.newbyteorder('<'))");
  }
  return refuse(shown + "; tokens must be integers: " + model::integer_names());
}

Status check_declared(std::optional<Element> declared, Element found, const std::string& where) {
  if (!declared || *declared == found) return {};
  return refuse(where + " says its tokens are " + std::string(model::element_name(found)) +
                ", and `dtype` says " + std::string(model::element_name(*declared)) +
                "; remove `dtype`, or put the right one there");
}

Status check_size(const RawLayout& layout, uint64_t size_bytes, const std::string& header) {
  const uint64_t width = model::element_bytes(layout.element);
  const uint64_t there = size_bytes - layout.begin;
  if (layout.tokens <= there / width && layout.tokens * width == there) return {};
  return bad_data(header + " says it has " + std::to_string(layout.tokens) + " tokens of " +
                  std::to_string(width) + " bytes, and " + std::to_string(there) +
                  " bytes follow it; was the file cut short?");
}

Result<RawLayout> numpy_layout(std::string_view head, uint64_t size_bytes,
                               std::optional<Element> declared) {
  ByteReader reader(head.substr(kNumpyMagic.size()));
  const uint8_t version = reader.u8();
  reader.u8();  // of the version, behind its dot
  uint64_t length = reader.u8();
  length |= uint64_t{reader.u8()} << 8;
  uint64_t begin = kNumpyMagic.size() + 4;
  if (version == 2 || version == 3) {
    length |= uint64_t{reader.u8()} << 16;
    length |= uint64_t{reader.u8()} << 24;
    begin += 2;
  } else if (version != 1) {
    return bad_data("begins like a NumPy file of version " + std::to_string(version) +
                    ", and 1 to 3 are known");
  }
  if (reader.failed() || length > head.size() - begin) {
    return bad_data("begins like a NumPy file whose header of " + std::to_string(length) +
                    " bytes is not whole");
  }
  const auto array = NumpyHeader(head.substr(begin, length)).parse();
  if (!array) return bad_data("begins like a NumPy file, and its header is none");
  RawLayout layout;
  OVERLORD_TRY(layout.element, element_of_type(array->type));
  OVERLORD_RETURN_IF_ERROR(check_declared(declared, layout.element, "its NumPy header"));
  if (array->shape.size() != 1) {
    return refuse("is a NumPy array of shape " + shape_text(array->shape) +
                  ", and tokens are one row of numbers, (N,); write array.reshape(-1), with "
                  "`document: {length: L}` where its rows are documents");
  }
  layout.begin = begin + length;
  layout.tokens = array->shape.front();
  OVERLORD_RETURN_IF_ERROR(check_size(layout, size_bytes, "its NumPy header"));
  return layout;
}

uint32_t number_at(std::string_view head, size_t index) {
  ByteReader reader(head.substr(index * 4));
  return reader.u32();
}

Result<RawLayout> llmc_layout(const LlmcKind& kind, std::string_view head, uint64_t size_bytes,
                              std::optional<Element> declared) {
  const std::string header = "its header (llm.c, magic " + std::to_string(kind.magic) + ")";
  if (size_bytes < kLlmcHeaderBytes) return bad_data(header + " is cut short");
  if (number_at(head, 1) != kind.version) {
    return Status(Code::kVersionMismatch, header + " is of version " +
                                              std::to_string(number_at(head, 1)) + ", and " +
                                              std::to_string(kind.version) + " is known");
  }
  OVERLORD_RETURN_IF_ERROR(check_declared(declared, kind.element, header));
  const RawLayout layout{kind.element, kLlmcHeaderBytes, number_at(head, 2)};
  OVERLORD_RETURN_IF_ERROR(check_size(layout, size_bytes, header));
  return layout;
}

}  // namespace

Result<RawLayout> raw_layout(std::string_view head, uint64_t size_bytes,
                             std::optional<Element> declared) {
  if (head.starts_with(kNumpyMagic)) return numpy_layout(head, size_bytes, declared);
  const uint32_t magic = head.size() < 4 ? 0 : number_at(head, 0);
  for (const LlmcKind& kind : kLlmcKinds) {
    if (magic == kind.magic) return llmc_layout(kind, head, size_bytes, declared);
  }
  if (magic == kLlmcQuestions) {
    return refuse("has questions with several answers (llm.c, magic " +
                  std::to_string(kLlmcQuestions) + "), and no text to train on");
  }
  if (!declared) {
    return refuse(
        "has no header (NumPy's or llm.c's) that says how its tokens lie in it; write "
        "`dtype:` with one of " +
        model::integer_names());
  }
  const uint64_t width = model::element_bytes(*declared);
  if (size_bytes % width != 0) {
    return refuse("has " + std::to_string(size_bytes) + " bytes, which is no whole number of " +
                  std::string(model::element_name(*declared)) + " tokens; is `dtype` right?");
  }
  return RawLayout{*declared, 0, size_bytes / width};
}

}  // namespace overlord::columnar
