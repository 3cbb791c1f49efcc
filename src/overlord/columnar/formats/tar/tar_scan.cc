#include "overlord/columnar/formats/tar/tar_scan.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "overlord/base/check.h"
#include "overlord/base/hash.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

constexpr size_t kBlock = 512;
constexpr uint64_t kMaxNoteBytes = 1 << 20;       // a name or a set of pax records
constexpr uint64_t kMaxSize = uint64_t{1} << 62;  // sums of two stay far from overflow

// Fields of a header block, in its order.
constexpr size_t kName = 0, kNameBytes = 100;
constexpr size_t kSize = 124, kSizeBytes = 12;
constexpr size_t kChecksum = 148, kChecksumBytes = 8;
constexpr size_t kType = 156;
constexpr size_t kMagic = 257;
constexpr size_t kPrefix = 345, kPrefixBytes = 155;

std::string_view text_field(std::string_view header, size_t at, size_t bytes) {
  const std::string_view field = header.substr(at, bytes);
  return field.substr(0, std::min(field.find('\0'), field.size()));
}

// Octal digits between spaces; nothing at all is 0.
std::optional<uint64_t> octal(std::string_view field) {
  field = field.substr(0, std::min(field.find('\0'), field.size()));
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  while (!field.empty() && field.back() == ' ') field.remove_suffix(1);
  uint64_t value = 0;
  for (const char c : field) {
    if (c < '0' || c > '7' || value >= kMaxSize / 8) return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

// GNU: the first byte is 0x80 and the others are a big-endian number.
std::optional<uint64_t> number(std::string_view field) {
  if (static_cast<unsigned char>(field.front()) < 0x80) return octal(field);
  if (static_cast<unsigned char>(field.front()) != 0x80) return std::nullopt;  // negative
  uint64_t value = 0;
  for (const char c : field.substr(1)) {
    if (value >= kMaxSize / 256) return std::nullopt;
    value = value * 256 + static_cast<unsigned char>(c);
  }
  return value;
}

// The sum of all bytes, its own field taken as spaces. Old writers added signed bytes.
bool checksum_fits(std::string_view header) {
  const auto stored = octal(header.substr(kChecksum, kChecksumBytes));
  if (!stored) return false;
  int64_t plain = 0, with_sign = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum && i < kChecksum + kChecksumBytes;
    const char c = own ? ' ' : header[i];
    plain += static_cast<unsigned char>(c);
    with_sign += static_cast<signed char>(c);
  }
  const auto wanted = static_cast<int64_t>(*stored);
  return wanted == plain || wanted == with_sign;
}

bool is_zero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

uint64_t padded(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

}  // namespace

Status TarScanner::error(const std::string& what) const {
  return bad_data(what + " (header at offset " + std::to_string(header_at_) + ")");
}

void TarScanner::expect(State state, uint64_t bytes) {
  state_ = state;
  wanted_ = bytes;
  held_.clear();
}

Status TarScanner::add(std::string_view piece, uint64_t offset) {
  OVERLORD_CHECK(offset <= next_, "pieces of a tar come in order");
  const uint64_t end = offset + piece.size();
  while (next_ < end) {
    const std::string_view rest = piece.substr(next_ - offset);
    if (state_ == State::kEnd) {
      const size_t stray = rest.find_first_not_of('\0');
      if (stray != std::string_view::npos) {
        return bad_data("has bytes behind its end mark at offset " + std::to_string(next_ + stray) +
                        ", which tar readers would leave out; were tars joined? Join them with "
                        "`tar --concatenate`, or list them one by one");
      }
      next_ = end;
      break;
    }
    const size_t take = std::min<uint64_t>(wanted_ - held_.size(), rest.size());
    held_.append(rest.substr(0, take));
    next_ += take;
    if (held_.size() == wanted_) OVERLORD_RETURN_IF_ERROR(step());
  }
  return {};
}

Status TarScanner::step() {
  switch (state_) {
    case State::kHeader:
      return take_header();
    case State::kNote:
      return take_note();
    case State::kHead:
      return take_head();
    case State::kEnd:
      break;
  }
  return {};
}

void TarScanner::begin_group() {
  in_group_ = false;
  own_ = {};
  long_name_.clear();
  group_begin_ = next_;
}

Status TarScanner::take_header() {
  header_at_ = next_ - kBlock;
  if (is_zero(held_)) {
    if (in_group_) return error("ends behind a long name or pax header without its member");
    expect(State::kEnd, 0);
    return {};
  }
  if (!checksum_fits(held_)) {
    return error(header_at_ == 0 ? "is no tar file" : "has garbage where a tar header should be");
  }
  scanned_ = hash64(held_.data(), held_.size(), scanned_);
  const auto size = number(std::string_view(held_).substr(kSize, kSizeBytes));
  if (!size) return error("has a member whose size is no number");
  const char type = held_[kType];
  if (std::strchr("LKxgX", type) == nullptr || type == '\0') {
    member_.size_bytes = own_.size_bytes.value_or(global_.size_bytes.value_or(*size));
    return take_body(type);
  }
  if (*size > kMaxNoteBytes) {
    return error("has a long name or pax header of " + std::to_string(*size) + " bytes");
  }
  in_group_ = true;
  note_type_ = type;
  note_bytes_ = *size;
  body_end_ = next_ + *size;
  expect(State::kNote, padded(*size));
  return wanted_ == 0 ? take_note() : Status();
}

std::string TarScanner::member_name() const {
  if (own_.path) return *own_.path;
  if (!long_name_.empty()) return long_name_;
  if (global_.path) return *global_.path;
  std::string name(text_field(held_, kName, kNameBytes));
  const std::string_view prefix = text_field(held_, kPrefix, kPrefixBytes);
  // GNU's own magic ends in a space and has other things where ustar has the prefix.
  if (!prefix.empty() &&
      std::string_view(held_).substr(kMagic, 6) == std::string_view("ustar\0", 6)) {
    name = std::string(prefix) + "/" + name;
  }
  return name;
}

Status TarScanner::take_body(char type) {
  if (type == 'S' || own_.sparse || global_.sparse) {
    return error("has a sparse member, which is not read; write it without --sparse");
  }
  member_.name = member_name();
  member_.begin = group_begin_;
  member_.offset = next_;
  const bool linked = type >= '1' && type <= '6';  // links, devices, directories have no body
  const bool directory = type == '\0' && member_.name.ends_with('/');
  const bool regular = (type == '0' || type == '\0' || type == '7') && !directory;
  if (linked) member_.size_bytes = 0;
  if (member_.size_bytes > kMaxSize) return error("has a member whose size is no number");
  body_end_ = next_ + member_.size_bytes;
  if (!regular) {
    next_ = member_.offset + padded(member_.size_bytes);
    begin_group();
    expect(State::kHeader, kBlock);
    return {};
  }
  expect(State::kHead, std::min<uint64_t>(head_bytes_, member_.size_bytes));
  return wanted_ == 0 ? take_head() : Status();
}

Status TarScanner::take_head() {
  member_.head = held_;
  const uint64_t next = member_.offset + padded(member_.size_bytes);
  const Status status = visit_(member_);
  next_ = next;
  begin_group();
  expect(State::kHeader, kBlock);
  return status;
}

Status TarScanner::take_note() {
  scanned_ = hash64(held_.data(), held_.size(), scanned_);
  held_.resize(note_bytes_);
  if (note_type_ == 'L') {
    long_name_ = text_field(held_, 0, held_.size());
  } else if (note_type_ == 'g') {
    OVERLORD_RETURN_IF_ERROR(take_pax(&global_));
    if (long_name_.empty() && !own_.path && !own_.size_bytes) in_group_ = false;
  } else if (note_type_ != 'K') {
    OVERLORD_RETURN_IF_ERROR(take_pax(&own_));
  }
  expect(State::kHeader, kBlock);
  return {};
}

// Records are "LENGTH KEY=VALUE\n", the length counting all of it.
Status TarScanner::take_pax(Notes* notes) const {
  std::string_view rest = held_;
  while (!rest.empty() && rest.front() != '\0') {
    uint64_t length = 0;
    const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<size_t>(end - rest.data());
    if (fault != std::errc() || length > rest.size() || length < digits + 3 ||
        rest[digits] != ' ' || rest[length - 1] != '\n') {
      return error("has a broken pax header");
    }
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    rest.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return error("has a broken pax header");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") {
      notes->path = value.empty() ? std::nullopt : std::optional<std::string>(value);
    } else if (key == "size") {
      uint64_t size = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), size);
      const bool whole = parsed.ec == std::errc() && parsed.ptr == value.data() + value.size();
      if (!whole || size > kMaxSize) return error("has a pax size that is no number");
      notes->size_bytes = size;
    } else if (key.starts_with("GNU.sparse.")) {
      notes->sparse = true;
    }
  }
  return {};
}

Status TarScanner::finish(uint64_t size_bytes) {
  if (size_bytes == 0) return bad_data("is empty, not a tar file");
  const bool in_header = state_ == State::kNote || (state_ == State::kHeader && !held_.empty());
  if (in_header || (state_ == State::kHeader && in_group_)) {
    return bad_data("is cut short inside of a header at offset " + std::to_string(group_begin_) +
                    "; copy it again");
  }
  if (body_end_ > size_bytes) {
    return bad_data("is cut short: the member " + runtime::quote(member_.name, 200) +
                    " ends at offset " + std::to_string(body_end_) + ", the file at " +
                    std::to_string(size_bytes) + "; copy it again");
  }
  return {};  // without an end mark too: see has_end_mark()
}

std::optional<SampleName> split_sample_name(std::string_view name) {
  const std::string_view first = name.substr(0, std::min(name.find('/'), name.size()));
  if (first.size() >= 4 && first.starts_with("__") && first.ends_with("__")) return std::nullopt;
  const size_t slash = name.rfind('/');
  const size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  if (dot == base) {
    // A base name that begins with its dot takes the directory for its key, unless that has dots.
    const size_t above = name.substr(0, base - 1).rfind('/');
    const std::string_view directory = name.substr(above == std::string_view::npos ? 0 : above + 1);
    if (directory.substr(0, directory.find('/')).find('.') != std::string_view::npos) {
      return std::nullopt;
    }
  }
  SampleName out{name.substr(0, dot), std::string(name.substr(dot + 1))};
  for (char& c : out.extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace overlord::columnar
