#include "overlord/batch/media_slabs.h"

#include <algorithm>
#include <cstring>

#include "overlord/base/check.h"

namespace overlord::batch {
namespace {

void copy_rows(std::span<const PlacedMedia> placed, uint32_t field, runtime::BufferPool& pool,
               model::MediaSlab* slab) {
  const uint64_t row_bytes = slab->layout.row_bytes();
  slab->data.size_bytes = slab->rows * row_bytes;
  const runtime::Buffer buffer = pool.acquire(std::max<uint64_t>(slab->data.size_bytes, 1));
  OVERLORD_CHECK(buffer.data != nullptr, "out of memory for the media of a batch");
  char* out = buffer.data.get();
  for (const PlacedMedia& media : placed) {
    const model::MediaPiece& piece = *media.piece;
    if (piece.field != field) continue;
    OVERLORD_CHECK(piece.data.size_bytes == piece.shape.rows * row_bytes,
                   "a loader's media are of another shape than the job's");
    if (piece.data.size_bytes > 0) std::memcpy(out, piece.data.data, piece.data.size_bytes);
    out += piece.data.size_bytes;
  }
  slab->data.data = buffer.data.get();
  slab->holder = buffer.data;
}

}  // namespace

std::vector<uint32_t> document_starts(const AssembleSpec& spec, std::span<const Piece> pieces) {
  std::vector<uint32_t> starts;
  starts.reserve(pieces.size());
  uint32_t row = 0, at = 0;
  for (const Piece& piece : pieces) {
    if (piece.row != row) {
      row = piece.row;
      at = row * spec.context;
    }
    starts.push_back(at);
    at += (piece.segment.count + spec.align - 1) / spec.align * spec.align;
  }
  return starts;
}

std::vector<model::MediaSlab> fill_media(std::span<const model::MediaLayout> layouts,
                                         std::span<const PlacedMedia> placed, bool with_data,
                                         runtime::BufferPool& pool) {
  std::vector<model::MediaSlab> slabs;
  for (uint32_t field = 0; field < layouts.size(); ++field) {
    model::MediaSlab slab;
    slab.layout = layouts[field];
    bool here = with_data;
    for (const PlacedMedia& media : placed) {
      const model::MediaPiece& piece = *media.piece;
      if (piece.field != field) continue;
      slab.items.push_back(
          {media.document, media.start + piece.first, piece.tokens, slab.rows, piece.shape});
      slab.rows += piece.shape.rows;
      here = here && piece.data.data != nullptr;
    }
    if (slab.items.empty()) continue;
    if (here) copy_rows(placed, field, pool, &slab);
    slabs.push_back(std::move(slab));
  }
  return slabs;
}

std::vector<model::MediaSlab> without_data(const std::vector<model::MediaSlab>& slabs) {
  std::vector<model::MediaSlab> out = slabs;
  for (model::MediaSlab& slab : out) {
    slab.data = {};
    slab.holder.reset();
  }
  return out;
}

}  // namespace overlord::batch
