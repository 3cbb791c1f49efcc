// Media of a microbatch: the transformed blobs of its documents, laid one behind the other into one
// array per field. The one place where they are copied.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/batch/assemble.h"
#include "overlord/model/media_slab.h"
#include "overlord/runtime/buffer.h"

namespace overlord::batch {

// By piece: the place of its first token in the whole microbatch, rows laid end to end.
std::vector<uint32_t> document_starts(const AssembleSpec& spec, std::span<const Piece> pieces);

struct PlacedMedia {
  const model::MediaPiece* piece = nullptr;
  uint32_t document = 0;  // number of its document's piece, which is its row of the lineage
  uint32_t start = 0;     // of the document, see document_starts
};

// Fields without media in this microbatch are left out. `with_data`: false, when nobody sees it; a
// field whose pieces came without bytes (they are encoded elsewhere) has none either.
std::vector<model::MediaSlab> fill_media(std::span<const model::MediaLayout> layouts,
                                         std::span<const PlacedMedia> placed, bool with_data,
                                         runtime::BufferPool& pool);

// The same without the bytes.
std::vector<model::MediaSlab> without_data(const std::vector<model::MediaSlab>& slabs);

}  // namespace overlord::batch
