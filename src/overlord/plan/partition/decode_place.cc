#include "overlord/plan/partition/decode_place.h"

#include <algorithm>
#include <numeric>

#include "overlord/base/check.h"
#include "overlord/plan/partition/cores_text.h"

namespace overlord::plan {
namespace {

constexpr uint64_t kLeastSaved = 2;  // packed, at most one of so many bytes is left

std::string bytes_text(uint64_t bytes) {
  if (bytes < 10'000) return std::to_string(bytes) + " B";
  if (bytes < 10'000'000) return std::to_string(bytes / 1000) + " kB";
  return std::to_string(bytes / 1'000'000) + " MB";
}

// "196 kB a row packed, 8920 kB decoded"
std::string sizes_text(const DecodeLoad& load) {
  return bytes_text(load.stored_bytes / load.rows) + " a row packed, " +
         bytes_text(load.decoded_bytes / load.rows) + " decoded";
}

// What it would cost constructors. With an encoder the groups of document and encoder both decode.
uint64_t at_constructors(const DecodeLoad& load) {
  return load.millicores * (load.encoded ? 2 : 1);
}

// Those that save most bytes for the time of a core come first; unmeasured ones take none.
std::vector<size_t> by_worth(std::span<const DecodeLoad> loads) {
  std::vector<size_t> order(loads.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto saved = [&](size_t i) {
    const DecodeLoad& load = loads[i];
    const uint64_t less = load.decoded_bytes - std::min(load.decoded_bytes, load.stored_bytes);
    return static_cast<unsigned __int128>(less) / std::max<uint64_t>(1, load.rows);
  };
  const auto cost = [&](size_t i) { return std::max<uint64_t>(1, at_constructors(loads[i])); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return saved(a) * cost(b) > saved(b) * cost(a); });
  return order;
}

}  // namespace

std::vector<DecodeChoice> choose_decoding(std::span<const DecodeLoad> loads,
                                          const DecodeRoom& room) {
  std::vector<DecodeChoice> out(loads.size());
  uint64_t left = room.near_cores * kMilli;
  for (const size_t i : by_worth(loads)) {
    const DecodeLoad& load = loads[i];
    DecodeChoice& choice = out[i];
    choice.source = load.name;
    if (load.rows == 0) continue;
    if (load.asked != model::DecodeAt::kAuto) {
      choice.packs = load.asked == model::DecodeAt::kConstructor;
      choice.why = "decode_at says so";
      continue;
    }
    if (!room.wire) {
      choice.why = "all on one host, where nothing is sent";
      continue;
    }
    choice.why = sizes_text(load);
    if (load.decoded_bytes < kLeastSaved * load.stored_bytes) {
      choice.why += ", which saves less than half";
      continue;
    }
    const uint64_t work = at_constructors(load);
    if (load.millicores == 0) {
      choice.packs = true;
      choice.why += "; what decoding costs was not measured";
      continue;
    }
    // What would be done once is not done twice on cores that are not there.
    choice.packs = work <= left || (room.far_cores == 0 && !load.encoded);
    choice.why += "; decoding takes " + cores_text(work) +
                  (load.encoded ? ", by the groups of documents and of encoders" : "") +
                  ", hosts of constructors have " + cores_text(left) + " to spare, others " +
                  (room.far_cores == 0 ? "none" : cores_text(room.far_cores * kMilli));
    if (choice.packs) left -= std::min(left, work);
  }
  return out;
}

}  // namespace overlord::plan
