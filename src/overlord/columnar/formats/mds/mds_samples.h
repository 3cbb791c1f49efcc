// What the index keeps of a block of MDS samples. Of sources with media it is where each wanted
// value lies, so that reading text does not read pictures; of others the samples' sizes alone.
#pragma once

#include <cstdint>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/columnar/formats/mds/mds_shard.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

struct MdsSample {
  bool bad = false;                         // its reason is in the index
  MdsSpan whole;                            // in the shard's text
  std::vector<MdsSpan> rows;                // of the row columns, in the sample; with media
  std::vector<std::vector<MdsSpan>> media;  // by field, in the sample
};

void write_mds_samples(const std::vector<MdsSample>& samples, const model::Source& source,
                       ByteWriter* out);
// False: not what was written for a block of `rows` rows that begins at `offset`, with so many row
// columns, in a text that ends at `end`.
bool read_mds_samples(ByteReader* in, uint64_t offset, uint64_t end, size_t rows,
                      size_t row_columns, const model::Source& source, std::vector<MdsSample>* out);

}  // namespace overlord::columnar
