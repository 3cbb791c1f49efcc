// Media: the bytes that rows have beside their text (model::MediaField), compressed as they are
// stored. What the index keeps of every blob, who may look at its first bytes while a shard is
// indexed, and where a reader says that a blob lies. docs/formats.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/manifest.h"
#include "overlord/model/source.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

class BlockReader;
struct BlockRequest;
struct ShardJob;
struct ShardPart;

inline constexpr uint32_t kMaxHeadBytes = 256 << 20;  // Matroska is looked at as a whole
inline constexpr uint32_t kMaxProbeValues = 10;

// What of a blob a probe sees: its first bytes, and what it asked for beside them.
struct BlobParts {
  std::string_view head;  // the whole blob where that is shorter
  uint64_t size_bytes = 0;
  uint64_t tail_offset = 0;
  std::string_view tail = {};
};
struct BlobRange {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

// Looks at the first bytes of every blob while its shard is indexed: sizes of images, durations.
// Thread-safe and pure: the values it gives are kept in the index and taken over from there when a
// shard did not change.
class MediaProbe {
 public:
  virtual ~MediaProbe() = default;
  virtual std::string version() const = 0;       // an index made with another one is built anew
  virtual uint32_t head_bytes() const = 0;       // it wants to see, at most kMaxHeadBytes
  // It gives, at most kMaxProbeValues; where a field has parts, two more behind them are theirs.
  virtual uint32_t values_per_blob() const = 0;
  // What it has to see beside the head of a longer blob, at most kMaxHeadBytes; from 0 on: instead
  // of it. Empty: nothing. kBadData: what is wrong with the blob.
  virtual Result<BlobRange> need(const model::MediaField&, const BlobParts&) const {
    return BlobRange();
  }
  // What is wrong with the blob (the row is bad then), or empty.
  virtual std::string look(const model::MediaField& field, const BlobParts& parts,
                           std::span<uint32_t> values) const = 0;
};

// Where one blob is.
struct MediaPlace {
  enum class Kind : uint8_t {
    kUnwanted,  // somewhere; never what a reader says
    kRange,     // as it is in a stored object: read it whenever its bytes are wanted
    kDecoded,   // inside something compressed: BlockReader::decode_media gives it
  };
  Kind kind = Kind::kUnwanted;
  uint64_t size_bytes = 0;
  std::string uri;  // kRange: of the object, which must still be `expected`
  uint64_t offset = 0;
  model::Fingerprint expected;
};

// Blobs of several rows, row by row, within a row in the order of Source::media, within a field in
// its own.
struct MediaPlaces {
  std::vector<MediaPlace> blobs;
  std::vector<uint32_t> ends;  // in `blobs`, of each row and field: row * fields + field
};

// The part of a sound or clip that a row means, in milliseconds; an end of 0: where the blob ends.
struct BlobPart {
  uint32_t start_ms = 0;
  uint32_t end_ms = 0;
};
// Out of seconds, absent ones for the blob's own begin and end. What is wrong with them, or empty.
std::string take_part(const model::MediaField& field, std::optional<double> start,
                      std::optional<double> end, BlobPart* part);

// What the index keeps of one blob.
struct BlobNote {
  uint32_t size_bytes = 0;
  uint32_t values[kMaxProbeValues] = {};
  std::string fault;  // what is wrong with it, or empty
};

// A blob while its shard is indexed.
struct BlobSource {
  std::string_view head;  // at least MediaNotes::head_bytes of it, or all
  uint64_t size_bytes = 0;
  // Any other part of it; null where there is no way back to it.
  std::function<Result<runtime::Bytes>(BlobRange range)> read;
};

// Gathers what the index keeps of each blob: its size and what the probe says, row after row.
class MediaNotes {
 public:
  MediaNotes(const ShardJob& job, ShardPart* part);

  // Bytes that look() must be given of a blob; of one that it cannot go back to, all that it may
  // ever ask for.
  uint32_t head_bytes(bool can_read) const;
  // The next row, which has no blob yet.
  void begin_row();
  // What there is to say about a blob, before it is known whether and where it belongs to the row.
  // A Status where the store fails.
  Result<BlobNote> look(size_t field, const BlobSource& blob) const;
  // The row's next blob of a field, of which it means a part. What is wrong with it, or empty.
  std::string add(size_t field, const BlobNote& note, BlobPart part = {});
  // The row is bad after all: it has no blobs.
  void drop_row();

 private:
  Result<std::string> probe(const model::MediaField& field, const BlobSource& blob,
                            std::span<uint32_t> values) const;

  const ShardJob& job_;
  ShardPart* const part_;
  const size_t per_field_;  // values kept of a blob: its size and those of the probe
};

// The media fields of a source as an index keeps them: what becomes of the bytes is not its matter.
std::vector<model::MediaField> media_places_of(const model::Source& source);

// Number of media arrays an index has: per field the sizes, then the probe's values.
inline size_t media_arrays(size_t fields, uint32_t probe_values) {
  return fields * (1 + size_t{probe_values});
}

// "media 'image': row has 5000 blobs, ..."; empty where a row may have so many.
std::string too_many_blobs(const model::MediaField& field, uint64_t count);

// Blobs of the wanted rows, each read whole, by row and field (row * fields + field). Blocks: for
// tools and tests, never from a role thread.
Result<std::vector<std::vector<runtime::Bytes>>> read_media(runtime::Storage& storage,
                                                            const model::SourceManifest& manifest,
                                                            const BlockReader& reader,
                                                            const BlockRequest& request);

}  // namespace overlord::columnar
