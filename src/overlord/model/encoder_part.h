// EncoderPart: what one rank has to do with the encoder in one microbatch: the samples it encodes,
// and its side of the exchange. Peers are places in `group`; only those that something goes to or
// comes from are listed, because of thousands of ranks few are.
//
// Payload is fetched by (sample id, part), so what is encoded is named here whether or not its
// pixels travel with the batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/ids.h"
#include "overlord/model/plan.h"
#include "overlord/model/plan_index.h"

namespace overlord::model {

struct PeerShare {
  uint32_t peer = 0;
  uint32_t samples = 0;
  int64_t units = 0;  // a split size

  friend bool operator==(const PeerShare&, const PeerShare&) = default;
};
static_assert(sizeof(PeerShare) == 16);

struct EncoderPart {
  std::string module;
  uint32_t encoder = 0;   // this rank's consumer at the encoder's axis
  uint32_t encoders = 1;  // consumers there are
  bool runs = false;      // this rank encodes; otherwise it only receives
  bool receives = false;  // this rank's backbone needs the output
  bool dummy = false;     // has no sample and runs all the same, on a made-up one; sends nothing
  uint32_t bytes_per_unit = 0;
  std::shared_ptr<const std::vector<Rank>> group;  // the ranks of the exchange, always the same

  std::vector<Segment> samples;      // encoded here, in order; `count` is the number of units
  std::vector<uint32_t> send_order;  // what is sent, peer after peer, as indices into `samples`
  std::vector<PeerShare> sends;      // by peer

  std::vector<Segment> received;        // what this rank's microbatch needs, in its order
  std::vector<uint32_t> documents;      // of each of them: row of the microbatch's lineage
  std::vector<uint32_t> receive_order;  // of what arrives, peer after peer: its place in `received`
  std::vector<PeerShare> receives_from;  // by peer

  OVERLORD_FIELDS(module, encoder, encoders, runs, receives, dummy, bytes_per_unit, group, samples,
                  send_order, sends, received, documents, receive_order, receives_from)
};

using EncoderPartPtr = std::shared_ptr<const EncoderPart>;

// Of one microbatch, for ranks of one bucket of the backbone; null for a rank outside the exchange,
// and for all of them where the plan has no encoder.
std::vector<EncoderPartPtr> encoder_parts(const Plan& plan, const PlanIndex& index, uint32_t bucket,
                                          uint32_t microbatch, std::span<const Rank> ranks);

Digest encoder_part_digest(const EncoderPart& part);

}  // namespace overlord::model
