#include "overlord/columnar/named_files.h"

#include <utility>

#include "overlord/columnar/kept_places.h"
#include "overlord/runtime/parallel.h"

namespace overlord::columnar {
namespace {

// Files that are looked at together: each look is a wait for the disk or the store.
constexpr uint32_t kLooksAtOnce = 16;

}  // namespace

Status NamedFiles::add(uint64_t first_row, std::string_view kept, std::vector<NamedMedia>* rows) {
  extras_.raw(kept.data(), kept.size());
  std::vector<Look> looks;
  for (size_t row = 0; row < rows->size(); ++row) ask((*rows)[row], row, &looks);
  runtime::for_each_parallel(kLooksAtOnce, looks.size(), [&](size_t i) {
    looks[i].answer = look_at_path(job_, notes_, looks[i].field, looks[i].path);
  });
  size_t next = 0;
  for (size_t row = 0; row < rows->size(); ++row) {
    const size_t begin = next;
    while (next < looks.size() && looks[next].row == row) ++next;
    OVERLORD_TRY(const std::string fault,
                 add_row((*rows)[row].fault, std::span(looks).subspan(begin, next - begin)));
    if (!fault.empty()) note_bad_row(job_, first_row + row, fault, part_);
  }
  ends_.push_back(extras_.size());
  return {};
}

void NamedFiles::finish() {
  part_->block_extras = extras_.take();
  part_->block_extra_ends = std::move(ends_);
}

// A row with too many is bad without a look at any of them.
void NamedFiles::ask(NamedMedia& named, size_t row, std::vector<Look>* looks) const {
  for (size_t field = 0; named.fault.empty() && field < named.paths.size(); ++field) {
    named.fault = too_many_blobs(job_.source->media[field], named.paths[field].size());
  }
  if (!named.fault.empty()) return;
  for (size_t field = 0; field < named.paths.size(); ++field) {
    const BlobPart part = field < named.parts.size() ? named.parts[field] : BlobPart();
    for (std::string& path : named.paths[field]) {
      looks->push_back({row, field, std::move(path), part});
    }
  }
}

// What is wrong with the row, or empty.
Result<std::string> NamedFiles::add_row(std::string fault, std::span<const Look> looks) {
  const size_t fields = job_.source->media.size();
  notes_.begin_row();
  ByteWriter places;
  size_t at = 0;
  for (size_t field = 0; fault.empty() && field < fields; ++field) {
    size_t end = at;
    while (end < looks.size() && looks[end].field == field) ++end;
    places.varint(end - at);
    for (; fault.empty() && at < end; ++at) {
      OVERLORD_TRY(fault, add_blob(looks[at], &places));
    }
  }
  if (fault.empty()) {
    extras_.raw(places.bytes().data(), places.size());
    return fault;
  }
  notes_.drop_row();
  for (size_t field = 0; field < fields; ++field) extras_.varint(0);
  return fault;
}

Result<std::string> NamedFiles::add_blob(const Look& look, ByteWriter* places) {
  const Result<NamedBlob>& answer = *look.answer;
  if (!answer.ok()) return answer.status();
  if (!answer->fault.empty()) return answer->fault;
  keep_named(look.path, answer->file, places);
  return notes_.add(look.field, answer->note, look.part);
}

}  // namespace overlord::columnar
