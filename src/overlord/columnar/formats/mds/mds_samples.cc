#include "overlord/columnar/formats/mds/mds_samples.h"

#include "overlord/columnar/media.h"

namespace overlord::columnar {
namespace {

void write_span(const MdsSpan& span, ByteWriter* out) {
  out->varint(span.offset);
  out->varint(span.size_bytes);
}

bool read_span(const MdsSample& sample, ByteReader* in, MdsSpan* out) {
  out->offset = in->varint();
  out->size_bytes = in->varint();
  return !in->failed() && out->offset <= sample.whole.size_bytes &&
         out->size_bytes <= sample.whole.size_bytes - out->offset;
}

bool read_values(const MdsSample& sample, size_t count, ByteReader* in, std::vector<MdsSpan>* out) {
  out->resize(count);
  for (MdsSpan& span : *out) {
    if (!read_span(sample, in, &span)) return false;
  }
  return true;
}

}  // namespace

void write_mds_samples(const std::vector<MdsSample>& samples, const model::Source& source,
                       ByteWriter* out) {
  for (const MdsSample& sample : samples) {
    out->varint(sample.whole.size_bytes * 2 + (sample.bad ? 1 : 0));
    if (source.media.empty() || sample.bad) continue;
    for (const MdsSpan& span : sample.rows) write_span(span, out);
    for (const std::vector<MdsSpan>& list : sample.media) {
      out->varint(list.size());
      for (const MdsSpan& span : list) write_span(span, out);
    }
  }
}

bool read_mds_samples(ByteReader* in, uint64_t offset, uint64_t end, size_t rows,
                      size_t row_columns, const model::Source& source,
                      std::vector<MdsSample>* out) {
  if (rows > in->remaining() || offset > end) return false;
  out->resize(rows);
  uint64_t at = offset;
  for (MdsSample& sample : *out) {
    const uint64_t size = in->varint();
    sample.bad = size % 2 == 1;
    sample.whole = {at, size / 2};
    if (in->failed() || size / 2 > end - at) return false;
    at += size / 2;
    sample.media.resize(source.media.size());
    if (source.media.empty() || sample.bad) continue;
    if (!read_values(sample, row_columns, in, &sample.rows)) return false;
    for (size_t field = 0; field < source.media.size(); ++field) {
      const size_t count = in->count(2);
      if (!too_many_blobs(source.media[field], count).empty() ||
          !read_values(sample, count, in, &sample.media[field])) {
        return false;
      }
    }
  }
  return in->at_end();
}

}  // namespace overlord::columnar
