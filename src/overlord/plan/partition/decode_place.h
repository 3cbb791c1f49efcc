// Who decodes the media of each source: its loaders, or the constructors, which get the blobs as
// they are stored. Chosen once, when a stream is begun, of what is known then: what decoding
// inflates, what it costs, and which hosts have the cores for it. Nothing of the stream depends on
// it. Pure, over integers; sources that are alike keep their order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/model/source.h"

namespace overlord::plan {

struct DecodeLoad {  // the media of one source
  std::string name;
  model::DecodeAt asked = model::DecodeAt::kAuto;
  uint64_t rows = 0;           // that were looked at; 0: there is nothing that may travel packed
  uint64_t stored_bytes = 0;   // of their blobs that may, as they are stored
  uint64_t decoded_bytes = 0;  // of the same
  // Thousandths of a core that decoding kept busy in the run before; 0: nobody has measured it.
  uint64_t millicores = 0;
  // An encoder with owners of its own reads some of it: the group of the document and the group of
  // the encoder each find out whether it decodes.
  bool encoded = false;

  OVERLORD_FIELDS(name, asked, rows, stored_bytes, decoded_bytes, millicores, encoded)
};

struct DecodeRoom {
  bool wire = false;        // between some loaders and some constructors
  uint64_t near_cores = 0;  // that hosts of constructors have to spare
  uint64_t far_cores = 0;   // of hosts that have none, and run loaders alone

  OVERLORD_FIELDS(wire, near_cores, far_cores)
};

struct DecodeChoice {
  std::string source;
  bool packs = false;  // constructors decode
  std::string why;     // for people; empty: nothing of it may travel packed

  OVERLORD_FIELDS(source, packs, why)
};

// One per load, in their order.
std::vector<DecodeChoice> choose_decoding(std::span<const DecodeLoad> loads,
                                          const DecodeRoom& room);

}  // namespace overlord::plan
