#include "overlord/model/media_slab.h"

#include "overlord/base/bytes.h"

namespace overlord::model {

uint64_t MediaLayout::row_values() const {
  uint64_t values = 1;
  for (const uint32_t side : row_shape) values *= side;
  return values;
}

Digest media_digest(const std::vector<MediaSlab>& slabs) {
  Digest digest;
  for (const MediaSlab& slab : slabs) {
    ByteWriter writer;
    writer.text(slab.layout.name);
    writer.u8(static_cast<uint8_t>(slab.layout.element));
    for (const uint32_t side : slab.layout.row_shape) writer.varint(side);
    for (const MediaItem& item : slab.items) {
      for (const uint64_t value :
           {uint64_t{item.document}, uint64_t{item.first}, uint64_t{item.tokens}, item.row_begin,
            uint64_t{item.shape.rows}, uint64_t{item.shape.t}, uint64_t{item.shape.h},
            uint64_t{item.shape.w}}) {
        writer.varint(value);
      }
    }
    digest = chain(digest, digest_of(writer.bytes()));
    if (slab.data.data != nullptr) {
      digest = chain(digest, digest_of(slab.data.data, slab.data.size_bytes));
    }
  }
  return digest;
}

}  // namespace overlord::model
