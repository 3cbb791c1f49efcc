// The fields of media as they travel with documents and microbatches, and what a reader of foreign
// bytes asks of them before a role sees them. Their bulk bytes are wire.cc's.
#pragma once

#include "overlord/model/media_slab.h"
#include "overlord/model/microbatch.h"
#include "overlord/protocol/fields/field_codec.h"

namespace overlord::protocol {

template <>
struct Fields<model::PackedBlob> {
  static void list(auto& codec, auto& value) {
    auto& [key, header, judged_only] = value;
    codec(key, judged_only);
    for (auto& number : header) codec(number);
  }
};

template <>
struct Fields<model::MediaPiece> {
  static void list(auto& codec, auto& value) {
    auto& [ordinal, field, first, tokens, shape, data, packed] = value;
    codec(ordinal, field, first, tokens, shape, packed);
    static_cast<void>(data);  // bulk
  }
};

template <>
struct Fields<model::MediaSlab> {
  static void list(auto& codec, auto& value) {
    auto& [layout, rows, data, items, holder] = value;
    codec(layout, rows, items);
    static_cast<void>(data);    // bulk
    static_cast<void>(holder);  // the receiver's own
  }
};

// No row of a picture or a patch is longer; keeps the arithmetic below from wrapping.
inline constexpr uint64_t kMostRowValues = uint64_t{1} << 30;

// Shape, rows and bytes belong together, and every item lies in the slab and names a document.
inline bool media_fits(const model::MediaSlab& slab, size_t documents) {
  const model::Element element = slab.layout.element;
  if (element != model::Element::kU8 && element != model::Element::kI16 &&
      element != model::Element::kF32) {
    return false;
  }
  uint64_t values = 1;
  for (const uint32_t side : slab.layout.row_shape) {
    if (side == 0 || values > kMostRowValues / side) return false;
    values *= side;
  }
  if (slab.rows > (uint64_t{1} << 31)) return false;
  if (slab.data.data != nullptr && slab.data.size_bytes != slab.rows * slab.layout.row_bytes()) {
    return false;
  }
  for (const model::MediaItem& item : slab.items) {
    if (item.document >= documents || item.row_begin > slab.rows) return false;
    if (item.shape.rows > slab.rows - item.row_begin) return false;
  }
  return true;
}

}  // namespace overlord::protocol
