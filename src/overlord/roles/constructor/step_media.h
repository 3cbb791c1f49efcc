// StepMedia: the media of one step of a group: what has become of those that came packed, which
// documents are holes for it, and where all of them belong. On the constructor's loop; read from
// the CPU pool once they are sorted.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/media_slab.h"
#include "overlord/model/plan.h"
#include "overlord/model/plan_index.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/constructor/unpacking.h"
#include "overlord/runtime/buffer.h"

namespace overlord::constructor {

using Payloads = std::map<protocol::Address, protocol::PayloadPtr>;  // by loader
using Refusals = std::map<protocol::Address, std::vector<protocol::Undecodable>>;

class StepMedia {
 public:
  StepMedia(model::PlanPtr plan, std::shared_ptr<const model::PlanIndex> index, uint32_t bucket);

  // What is to be unpacked and was not.
  std::vector<PackedPiece> packed(const Payloads& payloads) const;
  // What became of them. Fails with what is no verdict about a blob.
  Status take(const std::vector<PackedPiece>& pieces,
              const std::vector<Result<runtime::Bytes>>& made);
  // Documents of this group whose media, or whose encoder's, did not decode. They are refused:
  // their loaders answer again, with holes. Of a sample whose document another group has that one
  // says so.
  Refusals undecodable(const Payloads& payloads,
                       const std::vector<model::MediaLayout>& layouts) const;
  void forget(const protocol::Payload& payload);
  // All pieces with their rows; those of an encoder that did not decode are zeros, whatever part of
  // their sample it was.
  Status sort(const Payloads& payloads, const std::vector<model::MediaLayout>& layouts,
              runtime::BufferPool& pool);
  void clear();

  // Once they are sorted: by ordinal of the document, and by what ranks here encode.
  const std::map<uint32_t, std::vector<model::MediaPiece>>& documents() const { return documents_; }
  const std::map<SampleId, std::vector<model::MediaPiece>>& encoded() const { return encoded_; }

 private:
  const SampleId& document_of(const model::MediaPiece& piece) const;
  const SampleId& encoded_of(const model::MediaPiece& piece) const;
  bool has_document(const SampleId& id) const;
  model::MediaPiece opened(const model::MediaPiece& piece) const;
  std::set<SampleId> spoiled(const Payloads& payloads) const;

  model::PlanPtr plan_;
  std::shared_ptr<const model::PlanIndex> index_;
  uint32_t bucket_;
  std::map<const model::MediaPiece*, runtime::Bytes> unpacked_;
  std::map<const model::MediaPiece*, Status> bad_;
  std::vector<runtime::Buffer> zeros_;
  std::map<uint32_t, std::vector<model::MediaPiece>> documents_;
  std::map<SampleId, std::vector<model::MediaPiece>> encoded_;
};

}  // namespace overlord::constructor
