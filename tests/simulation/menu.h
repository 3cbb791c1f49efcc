// The fault menu: nine kinds, and how each is brewed into a storm. Test only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "overlord/sim/processes.h"

namespace overlord::sim {

enum class Kind { kCrash, kFreeze, kSlow, kNetwork, kDisk, kMemory, kStorage, kTime, kData };
inline constexpr std::array<const char*, 9> kNames = {
    "Crash", "Freeze", "Slow", "Network", "Disk", "Memory", "Storage", "Time", "Data"};

inline void brew(Kind kind, uint64_t seed, Layout* layout) {
  switch (kind) {
    case Kind::kCrash:
      layout->storm.kills = 1 + seed % 6;
      layout->planner.kills = seed % 3;
      layout->keeper.kills = seed / 3 % 3;
      layout->rank_deaths = {seed % 4, 30 + seed % 100, 400'000};
      return;
    case Kind::kFreeze:
      layout->freezes = {1 + seed % 6, 20 + seed % 60, 4'000'000};
      layout->keeper.watch_ns = 2'000'000;
      layout->planner.kills = 1 + seed % 2;
      return;
    case Kind::kSlow:
      layout->slow = {1 + seed % 6, 20 + seed % 60, 20'000'000};
      layout->keeper.watch_ns = 2'000'000;
      return;
    case Kind::kNetwork:
      layout->cuts = {1 + seed % 8, 10 + seed % 60, 1'000'000};
      return;
    case Kind::kDisk:
      layout->disk = {1 + seed % 4, 2 + seed % 6, 3'000'000};
      layout->planner.kills = std::max<uint64_t>(layout->planner.kills, 1);
      return;
    case Kind::kMemory:
      layout->memory = {1 + seed % 6, 20 + seed % 60, 0};
      return;
    case Kind::kStorage:
      layout->storage.late = {1 + seed % 8, 2 + seed % 20, 2'000'000};
      return;
    case Kind::kTime:
      layout->jumps = {1 + seed % 8, 10 + seed % 60, 1'000'000'000};
      layout->keeper.watch_ns = 2'000'000;
      return;
    case Kind::kData:
      return;
  }
}

// Those kinds whose bit is set in the seed, all at once.
inline Layout of_many_kinds(uint64_t seed) {
  Layout layout;
  layout.split = true;
  layout.loaders_together = 1 + static_cast<uint32_t>(seed % 3);
  for (size_t kind = 0; kind < kNames.size(); ++kind) {
    if ((seed >> kind & 1) != 0) brew(Kind(kind), seed / 3, &layout);
  }
  return layout;
}

}  // namespace overlord::sim
