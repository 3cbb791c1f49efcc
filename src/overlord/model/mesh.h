// Mesh: the trainer's ranks as named axes, and what of a microbatch each rank needs.
// Default order pp-dp-cp-tp, first axis slowest: rank = ((pp*DP + dp)*CP + cp)*TP + tp.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"

namespace overlord::model {

struct Axis {
  std::string name;
  uint32_t size = 1;

  OVERLORD_FIELDS(name, size)
};

class Mesh {
 public:
  // Axes slowest first. Names are unique; pp, dp, cp, tp have their meaning, others replicate data.
  static Result<Mesh> make(std::vector<Axis> axes);

  uint32_t world_size() const { return world_size_; }
  const std::vector<Axis>& axes() const { return axes_; }
  uint32_t size(std::string_view axis) const;                   // 1 for an absent axis
  uint32_t coordinate(Rank rank, std::string_view axis) const;  // 0 for an absent axis
  Digest digest() const;
  std::string text() const;  // "pp=2,dp=4,cp=2,tp=2"

 private:
  std::vector<Axis> axes_;
  uint32_t world_size_ = 1;
};

// How context parallel peers share a sequence (ecosystem: Megatron, Transformer Engine, Ulysses).
enum class Slicing : uint8_t { kTrainer, kSequenceZigzag, kDocumentZigzag, kContiguous };

// What a rank gets of a microbatch.
enum class Share : uint8_t { kNone, kBoundaries, kSlice, kFull };

enum Field : uint8_t {
  kFieldTokens = 1,
  kFieldTargets = 2,
  kFieldLossWeights = 4,
  kFieldPositions = 8,
  kFieldBoundaries = 16,
};
inline constexpr uint8_t kAllFields = 31;
inline constexpr uint8_t kPayloadFields =
    kFieldTokens | kFieldTargets | kFieldLossWeights | kFieldPositions;

// A rank of the job that a tree has no place for.
inline constexpr uint32_t kNoBucket = ~0u;

struct ClientView {
  uint32_t bucket = 0;  // the data-parallel group whose bins this rank sees
  Share share = Share::kFull;
  uint8_t fields = kAllFields;
  uint32_t slice = 0;
  uint32_t slices = 1;

  friend bool operator==(const ClientView&, const ClientView&) = default;

  bool present() const { return bucket != kNoBucket; }

  OVERLORD_FIELDS(bucket, share, fields, slice, slices)
};

enum class TokenType : uint8_t { kUint16, kInt32, kInt64 };
enum class WeightType : uint8_t { kUint8, kFloat32 };

// What the trainer asks of delivery: places and shapes, never contents of a step.
struct DeliverySpec {
  uint32_t microbatch_size = 1;  // bins of a microbatch
  bool fill_empty = false;       // add empty microbatches where DP x size does not divide bins
  Slicing slicing = Slicing::kSequenceZigzag;
  TokenType token_type = TokenType::kInt32;
  WeightType weight_type = WeightType::kFloat32;
  bool all_stages = false;  // every pipeline stage gets every field
  std::vector<std::string>
      broadcast_axes;  // the trainer broadcasts along these: index > 0 fetches nothing

  OVERLORD_FIELDS(microbatch_size, fill_empty, slicing, token_type, weight_type, all_stages,
                  broadcast_axes)
};

struct EncoderTable;  // exchange.h

struct ViewTable {
  uint32_t tree_version = 1;
  Slicing slicing = Slicing::kSequenceZigzag;
  std::vector<ClientView> by_rank;
  Digest digest;
  // Of a strategy with an encoder: who runs it, and who needs its output.
  std::shared_ptr<const EncoderTable> encoder;

  std::set<uint32_t> buckets() const;
};

}  // namespace overlord::model
