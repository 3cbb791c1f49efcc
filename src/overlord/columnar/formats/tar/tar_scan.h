// TarScanner: from the bytes of a tar file to its members, in order, without holding more than a
// header and the first bytes of a body. ustar, GNU long names and base-256 sizes, pax headers.
// Names are only names: nothing is ever extracted, so `../` and absolute ones need no care.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "overlord/base/status.h"

namespace overlord::columnar {

// A regular file of the archive.
struct TarMember {
  std::string name;
  uint64_t begin = 0;  // of its first header, with those that only say its long name
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  std::string_view head;  // its first bytes; valid during the visit
};

class TarScanner {
 public:
  // A visit sees each regular file once; `head_bytes` of its body come with it.
  using Visit = std::function<Status(const TarMember& member)>;
  TarScanner(size_t head_bytes, Visit visit) : head_bytes_(head_bytes), visit_(std::move(visit)) {}

  // The bytes at `offset`, which is not behind next(). What lies before next() is passed over, so
  // whoever can read anywhere need not read bodies.
  Status add(std::string_view piece, uint64_t offset);
  uint64_t next() const { return next_; }
  // Where the headers of the member in hand begin, or those of the next one.
  uint64_t group_begin() const { return group_begin_; }
  // No bytes come after `size_bytes`.
  Status finish(uint64_t size_bytes);
  // Whether the zero block came that ends an archive. GNU tar, bsdtar, Python, Go and Rust all
  // write two; without any, nobody can tell a whole archive from one that was cut behind a member.
  bool has_end_mark() const { return state_ == State::kEnd; }
  uint64_t scanned() const { return scanned_; }  // hash of all headers

 private:
  enum class State : uint8_t { kHeader, kNote, kHead, kEnd };

  // What pax and GNU headers say about the member that follows.
  struct Notes {
    std::optional<std::string> path;
    std::optional<uint64_t> size_bytes;
    bool sparse = false;
  };

  Status step();
  Status take_header();
  Status take_body(char type);
  Status take_note();
  Status take_pax(Notes* notes) const;
  Status take_head();
  void expect(State state, uint64_t bytes);
  void begin_group();
  std::string member_name() const;
  Status error(const std::string& what) const;

  const size_t head_bytes_;
  const Visit visit_;

  State state_ = State::kHeader;
  std::string held_;       // of what is being collected
  uint64_t wanted_ = 512;  // bytes of it
  uint64_t next_ = 0;
  uint64_t header_at_ = 0;  // offset of the last header
  uint64_t body_end_ = 0;   // of the last body, without its padding
  uint64_t group_begin_ = 0;
  uint64_t note_bytes_ = 0;
  char note_type_ = 0;
  bool in_group_ = false;  // a header that only says something about the next one was there
  Notes global_;
  Notes own_;
  std::string long_name_;
  TarMember member_;
  uint64_t scanned_ = 0;
};

// How a member's name splits into the key of its sample and the extension that names it there:
// the path up to the first dot of its base name, and what follows, in lower case. Nothing for
// names that belong to no sample (without a dot, hidden ones, `__meta__`), as webdataset has it.
struct SampleName {
  std::string_view key;
  std::string extension;
};
std::optional<SampleName> split_sample_name(std::string_view name);

}  // namespace overlord::columnar
