#include "overlord/roles/constructor/unpacking.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/runtime/trace.h"

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
  OVERLORD_CHECK(piece.packed.has_value(), "what is unpacked is packed");
  const std::string_view blob(static_cast<const char*>(piece.data.data), piece.data.size_bytes);
  OVERLORD_TRY(const media::FieldPlan plan, chain->planned(piece.packed->header, blob.size()));
  if (plan.shape != piece.shape) {
    return Status(Code::kInternal, "packed media were planned by another chain");
  }
  if (piece.packed->judged_only) {
    OVERLORD_RETURN_IF_ERROR(chain->judge(blob, piece.packed->header, piece.packed->key));
    return runtime::Bytes{};
  }
  const runtime::Buffer buffer = seams.pool->acquire(std::max<size_t>(plan.size_bytes, 1));
  if (!buffer.data) return seams.pool->refusal(plan.size_bytes);
  OVERLORD_RETURN_IF_ERROR(
      chain->run(blob, piece.packed->header, piece.packed->key,
                 {reinterpret_cast<uint8_t*>(buffer.data.get()), plan.size_bytes}));
  return runtime::Bytes{buffer.data, buffer.data.get(), plan.size_bytes};
}

// Counted while anybody holds what was made.
Result<runtime::Bytes> unpack_counted(const UnpackingSeams& seams, const PackedPiece& packed,
                                      StepIndex step) {
  const int64_t begin_ns = seams.clock->now_ns();
  Result<runtime::Bytes> made = unpack_one(seams, packed);
  const int64_t end_ns = seams.clock->now_ns();
  if (packed.source >= seams.probe->unpacking.size()) return made;
  UnpackProbe& probe = seams.probe->unpacking[packed.source];
  ++probe.blobs;
  probe.unpack_ns += static_cast<uint64_t>(end_ns - begin_ns);
  probe.in_bytes += packed.piece->data.size_bytes;
  if (made.ok() && made->data != nullptr) {
    probe.out_bytes += made->size;
    made->holder = runtime::counted(probe.held, made->size, std::move(made->holder));
  }
  if (runtime::tracing() && seams.sources) {
    runtime::TraceBook::of_process().note("unpack", (*seams.sources)[packed.source], begin_ns,
                                          end_ns, static_cast<int64_t>(step));
  }
  return made;
}

}  // namespace

void unpack(const UnpackingSeams& seams, StepIndex step, std::vector<PackedPiece> pieces,
            std::function<void(std::vector<Result<runtime::Bytes>>)> done) {
  auto work = std::make_shared<Work>();
  work->seams = seams;
  work->pieces = std::move(pieces);
  work->made.assign(work->pieces.size(), Result<runtime::Bytes>(runtime::Bytes{}));
  work->done = std::move(done);
  work->outstanding = work->pieces.size();
  for (size_t i = 0; i < work->pieces.size(); ++i) {
    seams.executor->post([work, i, step] {
      work->made[i] = unpack_counted(work->seams, work->pieces[i], step);
      OVERLORD_CHECK(work->outstanding > 0, "a piece is unpacked once");
      if (--work->outstanding == 0) work->done(std::move(work->made));
    });
  }
}

}  // namespace overlord::constructor
