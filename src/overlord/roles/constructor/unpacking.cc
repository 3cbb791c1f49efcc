#include "overlord/roles/constructor/unpacking.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

namespace overlord::constructor {
namespace {

struct Work {
  UnpackingSeams seams;
  std::vector<PackedPiece> pieces;
  std::vector<Result<runtime::Bytes>> made;
  std::function<void(std::vector<Result<runtime::Bytes>>)> done;
  std::atomic<size_t> outstanding{0};
};

Result<media::FieldChainPtr> chain_of(const MediaChains& chains, const PackedPiece& packed) {
  const uint32_t field = packed.piece->field;
  if (packed.source >= chains.size() || field >= chains[packed.source].size() ||
      chains[packed.source][field] == nullptr) {
    return Status(Code::kInternal, "packed media of a field that this constructor does not know");
  }
  return chains[packed.source][field];
}

Result<runtime::Bytes> unpack_one(const UnpackingSeams& seams, const PackedPiece& packed) {
  OVERLORD_TRY(const media::FieldChainPtr chain, chain_of(*seams.chains, packed));
  const model::MediaPiece& piece = *packed.piece;
  const std::string_view blob(static_cast<const char*>(piece.data.data), piece.data.size_bytes);
  OVERLORD_TRY(const media::FieldPlan plan, chain->planned(piece.packed->header, blob.size()));
  if (plan.shape != piece.shape) {
    return Status(Code::kInternal, "packed media were planned by another chain");
  }
  const runtime::Buffer buffer = seams.pool->acquire(std::max<size_t>(plan.size_bytes, 1));
  if (!buffer.data) return seams.pool->refusal(plan.size_bytes);
  OVERLORD_RETURN_IF_ERROR(
      chain->run(blob, piece.packed->header, piece.packed->key,
                 {reinterpret_cast<uint8_t*>(buffer.data.get()), plan.size_bytes}));
  return runtime::Bytes{buffer.data, buffer.data.get(), plan.size_bytes};
}

}  // namespace

void unpack(const UnpackingSeams& seams, std::vector<PackedPiece> pieces,
            std::function<void(std::vector<Result<runtime::Bytes>>)> done) {
  auto work = std::make_shared<Work>();
  work->seams = seams;
  work->pieces = std::move(pieces);
  work->made.assign(work->pieces.size(), Result<runtime::Bytes>(runtime::Bytes{}));
  work->done = std::move(done);
  work->outstanding = work->pieces.size();
  for (size_t i = 0; i < work->pieces.size(); ++i) {
    seams.executor->post([work, i] {
      work->made[i] = unpack_one(work->seams, work->pieces[i]);
      if (--work->outstanding == 0) work->done(std::move(work->made));
    });
  }
}

}  // namespace overlord::constructor
