// OpenMedia: the delivered media fields of a source as loaders see them: the prepared chains, and
// for every row what its blobs will be, from what the index keeps of their headers. Immutable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/index/source_index.h"
#include "overlord/columnar/media.h"
#include "overlord/media/field_chain.h"
#include "overlord/model/media_slab.h"
#include "overlord/model/source.h"

namespace overlord::loader {

struct OpenMediaField {
  size_t number = 0;  // in Source::media
  std::string name;
  model::MediaUse use;
  media::FieldChainPtr chain;
  model::MediaLayout layout;
  // From the index: by row where its blobs end, by blob the rest.
  std::span<const uint64_t> ends;
  std::span<const uint32_t> sizes;
  std::vector<std::span<const uint32_t>> headers;  // one for each of the kind's header values
  std::vector<std::span<const uint32_t>> parts;    // where rows mean a part: its start, its end
};

struct PlannedBlob {
  size_t field = 0;     // in OpenMedia::fields()
  uint64_t blob = 0;    // in the field's arrays
  uint32_t number = 0;  // among those of its row and field
  media::FieldPlan plan;
  uint32_t pads = 0;    // placeholders
  uint32_t tokens = 0;  // with those before and after them
};

// The blobs that a row has, by field, in order.
struct PlannedMedia {
  std::vector<PlannedBlob> blobs;
  uint32_t tokens = 0;   // that stand for them
  uint32_t markers = 0;  // tokens of the row whose place they take

  // Of a document whose row has `count` tokens of its own, without bos and eod.
  uint32_t length(uint32_t count) const { return count - std::min(count, markers) + tokens; }
};

class OpenMedia {
 public:
  // Null where no field of the source is delivered. The index must have been made with
  // media_probe(source).
  static Result<std::shared_ptr<const OpenMedia>> open(const model::Source& source,
                                                       const columnar::SourceIndex& index);

  const std::vector<OpenMediaField>& fields() const { return fields_; }
  // `row` counts in the whole source. kBadData: the document is bad, and why.
  Result<PlannedMedia> planned(uint64_t row) const;
  // What the index has of a blob's header.
  media::HeaderValues promised(const OpenMediaField& field, uint64_t blob) const;

 private:
  std::vector<OpenMediaField> fields_;
};

// Keeps the header values of every delivered blob; null where there are none.
std::shared_ptr<const columnar::MediaProbe> media_probe(const model::Source& source);

}  // namespace overlord::loader
