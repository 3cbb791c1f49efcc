// Indexing of tar shards: headers are walked, bodies are passed over (plain) or only streamed
// through (compressed). What makes a sample unusable makes it a bad row; what makes the rest of the
// archive unreadable is an error that names the offset.
#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>

#include "overlord/base/hash.h"
#include "overlord/columnar/formats/tar/tar_reader.h"
#include "overlord/columnar/formats/tar/tar_scan.h"
#include "overlord/columnar/media.h"
#include "overlord/columnar/streams/text_stream.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

constexpr uint64_t kWindowBytes = 128 << 10;  // read at once of a plain tar
constexpr size_t kMembersShown = 20;
constexpr const char* kMetadataExtension = "json";
constexpr const char* kPackedExtension = ".gz";

// The restart points that a block may still need: few at any time, since each holds its window.
class RestartPoints {
 public:
  void add(const std::shared_ptr<const RestartPoint>& point) {
    if (points_.empty() || points_.back() != point) points_.push_back(point);
  }

  std::shared_ptr<const RestartPoint> before(uint64_t offset) const {
    std::shared_ptr<const RestartPoint> found = points_.front();
    for (const auto& point : points_) {
      if (point->text_offset <= offset) found = point;
    }
    return found;
  }

  // Drops all but the newest and those that lie right before one of the marks.
  void keep_for(std::initializer_list<uint64_t> marks) {
    if (points_.size() <= marks.size() + 1) return;
    std::deque<std::shared_ptr<const RestartPoint>> kept;
    for (const auto& point : points_) {
      bool needed = point == points_.back();
      for (const uint64_t mark : marks) needed = needed || before(mark) == point;
      if (needed) kept.push_back(point);
    }
    points_ = std::move(kept);
  }

 private:
  std::deque<std::shared_ptr<const RestartPoint>> points_;
};

constexpr size_t kMostDigits = 9;

// Where a member stands among those of a field: by the number before its extension, where the field
// has many; else by the place of its extension in the list. Nothing: it is not of the field.
std::optional<uint32_t> number_in_field(const model::MediaField& field, std::string_view name) {
  uint32_t number = 0;
  std::string_view extension = name;
  if (field.many) {
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits > 0 && digits <= kMostDigits && name.substr(digits).starts_with('.')) {
      for (const char digit : name.substr(0, digits)) {
        number = number * 10 + static_cast<uint32_t>(digit - '0');
      }
      extension = name.substr(digits + 1);
    }
  }
  const auto listed = std::find(field.from.begin(), field.from.end(), extension);
  if (listed == field.from.end()) return std::nullopt;
  return field.many ? number : static_cast<uint32_t>(listed - field.from.begin());
}

// A member that a field may take.
struct FoundBlob {
  uint32_t number = 0;
  MemberPlace place;
  BlobNote note;
};

// From members to samples, and from samples to blocks.
class SampleCutter {
 public:
  // `stream` is null for a plain tar.
  SampleCutter(const ShardJob& job, const TextStream* stream, ShardPart* part)
      : job_(job),
        stream_(stream),
        part_(part),
        text_(text_member(*job.source)),
        notes_(job, part),
        restarts_(coding_of(job.file.uri)) {}

  size_t head_bytes() const { return notes_.head_bytes(stream_ == nullptr); }

  // A Status where the store fails.
  Status add(const TarMember& member) {
    const auto name = split_sample_name(member.name);
    if (!name) return {};
    if (!in_sample_ || name->key != key_) {
      end_sample();
      begin_sample(std::string(name->key), member.begin);
    }
    sample_end_ = member.offset + member.size_bytes;
    if (taken_.size() < kMembersShown) {
      extensions_ += (extensions_.empty() ? "." : ", .") + shortened(name->extension);
    }
    if (!taken_.insert(name->extension).second) {
      fail("has two members ." + shortened(name->extension) + ", the second at offset " +
           std::to_string(member.offset));
      return {};
    }
    const MemberPlace place{true, member.offset, member.size_bytes};
    if (is_member(name->extension, text_.extension)) {
      take_member(name->extension, place, &sample_.text);
    }
    if (is_member(name->extension, kMetadataExtension) && !job_.source->metadata_columns.empty()) {
      take_member(name->extension, place, &sample_.metadata);
    }
    return take_media(name->extension, member, place);
  }

  void end_sample() {
    if (!in_sample_) return;
    in_sample_ = false;
    const uint64_t row = part_->entry.rows++;
    if (fault_.empty() && !sample_.text.present) {
      fault_ = "has no member ." + text_.extension + "; it has " + extensions_;
    }
    const auto [found, first] = keys_.emplace(hash64(key_.data(), key_.size()), row);
    if (!first && fault_.empty()) {
      fault_ = "came before, as row " + std::to_string(found->second) +
               "; the members of a sample must lie together (sort the tar by name)";
    }
    const uint64_t span = sample_end_ - sample_begin_;
    if (fault_.empty() && stream_ != nullptr && span > job_.source->limits.max_block_bytes) {
      fault_ = "takes " + std::to_string(span) + " bytes, over limits.max_block (" +
               std::to_string(job_.source->limits.max_block_bytes) + "), in a compressed tar";
    }
    if (fault_.empty()) note_media();
    if (!fault_.empty()) {
      notes_.drop_row();
      const std::string which = key_.empty() ? "" : "sample " + quote(key_, 200) + " ";
      part_->bad.emplace_back(row, job_.reason(row, which + fault_));
      sample_ = {};
      sample_.bad = true;
    }
    // A bad sample costs its block nothing to read, so it may lie anywhere in it.
    if (!block_.empty() && !belongs_to_block(span)) close_block();
    if (block_.empty()) {
      block_begin_ = sample_begin_;
      first_row_ = row;
    }
    block_.push_back(std::move(sample_));
    if (block_.back().bad) return;
    block_bytes_ += wanted_bytes(block_.back());
    block_end_ = sample_end_;
    block_compressed_end_ = stream_ == nullptr ? 0 : stream_->compressed_end();
  }

  // The archive ends at `at` without an end mark: what may have followed is one more row, a bad
  // one.
  void note_missing_end(uint64_t at) {
    end_sample();
    const std::string last = key_;
    begin_sample({}, at);
    sample_end_ = at;
    const char* const mend = stream_ == nullptr ? "add the mark with `truncate -s +1024 FILE`"
                                                : "write it again with any tar program";
    fail("the tar ends at offset " + std::to_string(at) + ", behind sample " + quote(last, 200) +
         ", without the zero blocks that end a tar: it was cut there, or its writer was stopped; "
         "copy it again. If it is known to be whole, " +
         mend);
    end_sample();
  }

  void finish() {
    end_sample();
    close_block();
    part_->extra = restarts_.take_shard_extra();
    part_->block_extras = block_extras_.take();
  }

  void note_piece(uint64_t group_begin) {
    points_.add(stream_->restart());
    points_.keep_for({block_.empty() ? sample_begin_ : block_begin_,
                      in_sample_ ? sample_begin_ : group_begin, group_begin});
  }

 private:
  static std::string shortened(const std::string& extension) {
    return extension.size() <= 20 ? extension : extension.substr(0, 20) + "...";
  }

  void begin_sample(std::string key, uint64_t begin) {
    in_sample_ = true;
    key_ = std::move(key);
    sample_begin_ = begin;
    sample_ = {};
    sample_.media.resize(job_.source->media.size());
    found_.assign(job_.source->media.size(), {});
    taken_.clear();
    extensions_.clear();
    fault_.clear();
    notes_.begin_row();
  }

  void fail(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }

  // A member may be packed with gzip, and says so behind its extension.
  static bool is_member(const std::string& extension, const std::string& wanted) {
    return extension == wanted || extension == wanted + kPackedExtension;
  }

  // Of one that is there plain and packed the plain one counts.
  void take_member(const std::string& extension, const MemberPlace& place, MemberPlace* member) {
    const bool packed = extension.ends_with(kPackedExtension);
    if (packed && member->present) return;
    *member = place;
    member->packed = packed;
    check_document(extension, place);
  }

  void check_document(const std::string& extension, const MemberPlace& place) {
    const model::SourceLimits& limits = job_.source->limits;
    const uint64_t most = std::min(limits.max_document_bytes, limits.max_block_bytes);
    if (place.size_bytes <= most) return;
    fail("has a member ." + extension + " of " + std::to_string(place.size_bytes) +
         " bytes, over limits.max_document (" + std::to_string(most) + ")");
  }

  Status take_media(const std::string& extension, const TarMember& member,
                    const MemberPlace& place) {
    for (size_t i = 0; i < found_.size(); ++i) {
      const model::MediaField& field = job_.source->media[i];
      const auto number = number_in_field(field, extension);
      if (!number) continue;
      std::vector<FoundBlob>& found = found_[i];
      // Of several members that a field of one blob takes, the one whose extension is listed first.
      if (!field.many && !found.empty()) {
        if (*number >= found.front().number) continue;
        found.clear();
      }
      if (std::string fault = too_many_blobs(field, found.size() + 1); !fault.empty()) {
        fail(fault);
        continue;
      }
      BlobSource blob{member.head, place.size_bytes, nullptr};
      if (stream_ == nullptr) {
        blob.read = [&](BlobRange range) {
          return job_.read(job_.file, place.offset + range.offset, range.size_bytes);
        };
      }
      OVERLORD_TRY(BlobNote note, notes_.look(i, blob));
      found.push_back({*number, place, std::move(note)});
    }
    return {};
  }

  void note_media() {
    for (size_t i = 0; i < found_.size() && fault_.empty(); ++i) {
      std::vector<FoundBlob>& found = found_[i];
      std::stable_sort(found.begin(), found.end(),
                       [](const FoundBlob& a, const FoundBlob& b) { return a.number < b.number; });
      for (size_t j = 0; j < found.size() && fault_.empty(); ++j) {
        if (j > 0 && found[j].number == found[j - 1].number) {
          fail("has two members number " + std::to_string(found[j].number) + " for media " +
               quote(job_.source->media[i].name));
        } else {
          fail(notes_.add(i, found[j].note));
          sample_.media[i].push_back(found[j].place);
        }
      }
    }
  }

  // What reading a block's text takes: of a plain tar the members alone.
  static uint64_t wanted_bytes(const SampleEntry& sample) {
    return sample.text.size_bytes + (sample.metadata.present ? sample.metadata.size_bytes : 0);
  }

  bool belongs_to_block(uint64_t span) const {
    const uint64_t most = std::min(job_.options->block_bytes, job_.source->limits.max_block_bytes);
    if (block_.size() >= job_.options->block_rows) return false;
    if (sample_.bad) return true;
    if (stream_ == nullptr) return block_bytes_ + wanted_bytes(sample_) <= most;
    return sample_begin_ + span - block_begin_ <= most;
  }

  void close_block() {
    if (block_.empty()) return;
    uint64_t size = block_bytes_;
    if (stream_ != nullptr) {
      size = block_end_ > block_begin_ ? block_end_ - block_begin_ : 0;
      const uint64_t end =
          std::max(block_compressed_end_, points_.before(block_begin_)->first_byte());
      restarts_.add(points_.before(block_begin_), block_begin_, end, &block_extras_);
    }
    write_samples(block_, block_begin_, &block_extras_);
    part_->block_extra_ends.push_back(block_extras_.size());
    part_->blocks.push_back(
        {first_row_, static_cast<uint32_t>(block_.size()), 0, block_begin_, size});
    block_.clear();
    block_bytes_ = 0;
    block_end_ = 0;
  }

  const ShardJob& job_;
  const TextStream* const stream_;
  ShardPart* const part_;
  const TextMember text_;
  MediaNotes notes_;
  RestartNotes restarts_;
  RestartPoints points_;
  ByteWriter block_extras_;
  std::unordered_map<uint64_t, uint64_t> keys_;  // hash of each key -> its first row

  bool in_sample_ = false;
  std::string key_;
  uint64_t sample_begin_ = 0;
  uint64_t sample_end_ = 0;
  SampleEntry sample_;
  std::vector<std::vector<FoundBlob>> found_;  // by media field
  std::set<std::string> taken_;                // extensions of the sample
  std::string extensions_;                     // for messages
  std::string fault_;

  std::vector<SampleEntry> block_;
  uint64_t first_row_ = 0;
  uint64_t block_begin_ = 0;
  uint64_t block_end_ = 0;
  uint64_t block_bytes_ = 0;
  uint64_t block_compressed_end_ = 0;
};

Status look_for_compression(const ShardJob& job, std::string_view start) {
  if (start.starts_with("\x1f\x8b")) return job.error("is gzip; name it .tar.gz");
  if (start.starts_with("\x28\xb5\x2f\xfd")) return job.error("is zstd; name it .tar.zst");
  return {};
}

// The scanner knows offsets, not files.
Status named(const ShardJob& job, const Status& status) {
  return status.ok() ? status : job.error(status.message(), status.code());
}

// Headers and what follows them closely are read; long bodies are stepped over.
Status scan_plain(const ShardJob& job, TarScanner* scanner, SampleCutter* cutter) {
  const uint64_t size = job.file.fingerprint.size_bytes;
  while (scanner->next() < size) {
    const uint64_t at = scanner->next();
    OVERLORD_TRY(const runtime::Bytes bytes,
                 job.read(job.file, at, std::min(kWindowBytes, size - at)));
    const std::string_view piece(bytes.data, bytes.size);
    if (at == 0) OVERLORD_RETURN_IF_ERROR(look_for_compression(job, piece));
    OVERLORD_RETURN_IF_ERROR(named(job, scanner->add(piece, at)));
    job.note_scanned(std::min(size, std::max(scanner->next(), at + bytes.size)) - at);
  }
  OVERLORD_RETURN_IF_ERROR(named(job, scanner->finish(size)));
  if (!scanner->has_end_mark()) cutter->note_missing_end(size);
  return {};
}

Status scan_stream(const ShardJob& job, TextStream* stream, TarScanner* scanner,
                   SampleCutter* cutter) {
  uint64_t size = 0;
  while (true) {
    OVERLORD_TRY(const std::string_view piece, stream->next());
    if (piece.empty()) break;
    cutter->note_piece(scanner->group_begin());
    OVERLORD_RETURN_IF_ERROR(named(job, scanner->add(piece, stream->text_offset())));
    size = stream->text_offset() + piece.size();
  }
  OVERLORD_RETURN_IF_ERROR(named(job, scanner->finish(size)));
  if (!scanner->has_end_mark()) cutter->note_missing_end(size);
  return {};
}

}  // namespace

Result<ShardPart> index_tar_shard(const ShardJob& job) {
  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  std::unique_ptr<TextStream> stream;
  if (coding_of(job.file.uri) != Coding::kPlain) stream = open_text_stream(job);
  SampleCutter cutter(job, stream.get(), &part);
  TarScanner scanner(cutter.head_bytes(),
                     [&](const TarMember& member) { return cutter.add(member); });
  OVERLORD_RETURN_IF_ERROR(stream == nullptr ? scan_plain(job, &scanner, &cutter)
                                             : scan_stream(job, stream.get(), &scanner, &cutter));
  cutter.finish();
  part.scanned = stream == nullptr ? scanner.scanned() : stream->scanned();
  return part;
}

}  // namespace overlord::columnar
