// Media of Megatron's multimodal files: sequences whose mode is not 0. They hold files as
// tools/preprocess_mmdata.py packs them: numbers of 32 bits, the first of which says how many bytes
// at the end are padding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/columnar/media.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

// A sequence that is no text.
struct PackedFile {
  int8_t mode = 0;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

// The mode that a media field takes; nothing: it names none.
std::optional<int8_t> mode_of(const model::MediaField& field);

// Gathers what the index keeps of the media of documents.
class SequenceMedia {
 public:
  SequenceMedia(const ShardJob& job, ShardPart* part)
      : job_(job), part_(part), notes_(job, part) {}

  // Those of the next document. What is wrong with them, or empty; a Status where the store fails.
  Result<std::string> take(const std::vector<PackedFile>& files);
  // The document, which is in the last block now; `bad`: it has no media after all.
  void end_document(bool bad);
  // Once all are in blocks.
  void finish();

 private:
  Result<std::string> add(size_t field, const PackedFile& file, ByteWriter* places);

  const ShardJob& job_;
  ShardPart* const part_;
  MediaNotes notes_;
  std::string row_;                  // places of the document in hand
  std::vector<std::string> blocks_;  // of all documents, by block
};

}  // namespace overlord::columnar
