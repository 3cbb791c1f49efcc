// Media of a microbatch as a rank receives them: per field one array of rows (patches, pictures),
// and for every item where it lies, what shape it has and which tokens stand for it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/model/element.h"

namespace overlord::model {

// One array inside a slab. data == null: this rank does not get the field.
struct FieldView {
  const void* data = nullptr;
  uint64_t size_bytes = 0;
};

// What every source that has a field of this name delivers under it.
struct MediaLayout {
  std::string name;
  Element element = Element::kU8;   // kU8, kI16 or kF32
  std::vector<uint32_t> row_shape;  // of one row: a patch's values, a picture's sides, a frame

  uint64_t row_values() const;
  uint64_t row_bytes() const { return row_values() * element_bytes(element); }

  friend bool operator==(const MediaLayout&, const MediaLayout&) = default;

  OVERLORD_FIELDS(name, element, row_shape)
};

// The shape of one blob once it is transformed; what t, h and w say is its kind's (docs/media.md).
// Patches: their grid. Pictures: t of h x w pixels. Sounds: t chunks of h frames, w of all real.
struct MediaShape {
  uint32_t rows = 0;  // of the layout's row_shape
  uint32_t t = 0;
  uint32_t h = 0;
  uint32_t w = 0;

  friend bool operator==(const MediaShape&, const MediaShape&) = default;

  OVERLORD_FIELDS(rows, t, h, w)
};

// What the one who decodes a stored blob needs beside it: the sample's key, which decides all
// chance, and the header that the index promises. Roles agree on the chain itself.
struct PackedBlob {
  uint64_t key = 0;
  std::array<uint32_t, 10> header = {};
  bool judged_only = false;  // others get its rows: here it counts whether it decodes

  friend bool operator==(const PackedBlob&, const PackedBlob&) = default;
};

// One blob of a document, as a loader hands it over: transformed, or packed.
struct MediaPiece {
  uint32_t ordinal = 0;  // of its document among the bucket's segments
  uint32_t field = 0;    // in the job's list of layouts
  uint32_t first = 0;    // its first placeholder, counted in the document's tokens with bos
  uint32_t tokens = 0;   // placeholders
  MediaShape shape;
  FieldView data;
  std::optional<PackedBlob> packed = std::nullopt;  // `data` is the blob as it is stored
};

struct MediaItem {
  uint32_t document = 0;  // row of the microbatch's lineage
  uint32_t first = 0;     // its first placeholder in the whole microbatch, rows laid end to end
  uint32_t tokens = 0;
  uint64_t row_begin = 0;  // in the slab
  MediaShape shape;

  friend bool operator==(const MediaItem&, const MediaItem&) = default;

  OVERLORD_FIELDS(document, first, tokens, row_begin, shape)
};

struct MediaSlab {
  MediaLayout layout;
  uint64_t rows = 0;
  FieldView data;  // null: this rank gets the items only
  std::vector<MediaItem> items;
  std::shared_ptr<const void> holder;
};

// All fields of a microbatch that have items in it, in the order of the job's list.
using MediaSlabs = std::shared_ptr<const std::vector<MediaSlab>>;

// Of the bytes and the items, or of the items alone where the data is not there.
Digest media_digest(const std::vector<MediaSlab>& slabs);

}  // namespace overlord::model
