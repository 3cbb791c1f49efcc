// OpenMedia: the delivered media fields of a source as loaders see them: the prepared chains, and
// for every row what its blobs will be, from what the index keeps of their headers. Immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/media.h"
#include "overlord/columnar/source_index.h"
#include "overlord/media/image_chain.h"
#include "overlord/model/media_slab.h"
#include "overlord/model/source.h"

namespace overlord::loader {

struct OpenMediaField {
  size_t number = 0;  // in Source::media
  std::string name;
  model::MediaUse use;
  media::PreparedImageChain chain;
  model::MediaLayout layout;
  // By row, from the index.
  std::span<const uint32_t> sizes, widths, heights, orientations;
};

struct PlannedBlob {
  size_t field = 0;  // in OpenMedia::fields()
  media::ImageGeometry geometry;
  uint32_t pads = 0;    // placeholders
  uint32_t tokens = 0;  // with those before and after them
};

// The blobs that a row has, in the order in which their tokens stand before its text.
struct PlannedMedia {
  std::vector<PlannedBlob> blobs;
  uint32_t tokens = 0;
};

class OpenMedia {
 public:
  // Null where no field of the source is delivered. The index must have been made with
  // image_probe(source).
  static Result<std::shared_ptr<const OpenMedia>> open(const model::Source& source,
                                                       const columnar::SourceIndex& index);

  const std::vector<OpenMediaField>& fields() const { return fields_; }
  // `row` counts in the whole source. kBadData: the document is bad, and why.
  Result<PlannedMedia> planned(uint64_t row) const;
  // What the index has of a blob's header.
  media::ImageHeader promised(const OpenMediaField& field, uint64_t row) const;

 private:
  std::vector<OpenMediaField> fields_;
};

// Keeps width, height and orientation of every delivered picture; null where there are none.
std::shared_ptr<const columnar::MediaProbe> image_probe(const model::Source& source);

// The text form with every value named, or what is wrong with it as a media field's transform.
Result<std::string> canonical_transform(const std::string& text);

// Rows, sides and number of rows of an outcome.
model::MediaShape shape_of(const media::ImageGeometry& geometry);

}  // namespace overlord::loader
