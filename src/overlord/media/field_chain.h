// FieldChain: what becomes of the blobs of one media field, whatever kind of media they are. The
// stream speaks of chains through this file alone; a kind is one file (image_field.cc,
// audio_field.cc, video_field.cc) and one line of the table in field_chain.cc.
//
// A header is told in numbers (HeaderValues) that the index keeps for every blob: they decide what
// is planned, and run() refuses a blob whose own header says otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/blob_head.h"
#include "overlord/model/element.h"
#include "overlord/model/media_slab.h"
#include "overlord/model/source.h"

namespace overlord::media {

inline constexpr size_t kMostHeaderValues = 10;
// The part of a sound or clip that a row means, in milliseconds; an end of 0: where the blob ends.
// Not of the blob's header: told beside it.
inline constexpr size_t kPartStart = 8, kPartEnd = 9;
// Those of the kind first, the rest 0. The first one of a readable blob is never 0.
using HeaderValues = std::array<uint32_t, kMostHeaderValues>;

// How the items of a field lie in one array of rows.
struct FieldRows {
  model::Element element = model::Element::kU8;
  std::vector<uint32_t> shape;  // of one row
  bool has_units = false;       // items are made of patches, frames or samples that count
  bool tells_tokens = false;    // FieldPlan::tokens says how many tokens an item is
};

// What one blob will be.
struct FieldPlan {
  model::MediaShape shape;
  int64_t parts = 1;       // tiles, chunks: each has the same number of units
  int64_t part_units = 0;  // patches or frames of a part, added ones included
  int64_t units = 0;       // of the item, without what was added: the column of the planner
  int64_t tokens = 0;      // of the item, where the chain tells; else 0
  uint64_t size_bytes = 0;
};

// A prepared chain. Immutable and used by several threads at once.
class FieldChain {
 public:
  virtual ~FieldChain() = default;

  virtual std::string text() const = 0;  // with every value named: parses to the same chain
  virtual const FieldRows& rows() const = 0;

  // What a blob of this header and so many encoded bytes will be, or why it is refused: over a
  // limit, too small for a step.
  virtual Result<FieldPlan> planned(const HeaderValues& header, uint64_t size_bytes) const = 0;

  // Decodes and transforms into `out`, planned(promised).size_bytes long. kBadData also where the
  // blob's own header differs from what is promised. `key` (of the sample) decides all chance.
  virtual Status run(std::string_view blob, const HeaderValues& promised, uint64_t key,
                     std::span<uint8_t> out) const = 0;

  // What run() would answer, without the rows.
  virtual Status judge(std::string_view blob, const HeaderValues& promised, uint64_t key) const = 0;
};

using FieldChainPtr = std::shared_ptr<const FieldChain>;

// What is the same for all chains of a kind.
struct KindOfMedia {
  model::MediaKind kind;
  std::string_view name;           // in configs
  std::string_view probe_version;  // an index whose headers were read by another one is built anew
  uint32_t head_bytes;             // of a blob that are read first
  uint32_t header_values;          // how many of HeaderValues it gives
  Result<BlobNeed> (*need)(const BlobHead& blob);       // of a blob that is not whole
  Result<HeaderValues> (*probe)(const BlobHead& blob);  // without decoding
  // Refuses steps that cannot follow each other, and outcomes without a row size in common.
  Result<FieldChainPtr> (*prepare)(std::string_view transform);
};

const KindOfMedia& kind_of_media(model::MediaKind kind);
Result<model::MediaKind> media_kind(std::string_view name);

// One per kind, in a file of its own.
const KindOfMedia& image_kind();
const KindOfMedia& audio_kind();
const KindOfMedia& video_kind();

}  // namespace overlord::media
