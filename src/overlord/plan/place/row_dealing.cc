#include "overlord/plan/place/row_dealing.h"

#include <algorithm>
#include <memory>

#include "overlord/base/check.h"
#include "overlord/model/exchange.h"

namespace overlord::plan {
namespace {

using model::Layer;
using model::LoaderSlot;
using model::PlannedRow;
using model::SlotRows;

// Slots by number: all of the first source, then of the next.
class SlotNumbers {
 public:
  SlotNumbers(const model::Plan& plan, std::span<const uint32_t> slots, SourceWindows* windows)
      : windows_(windows) {
    uint32_t next = 0;
    for (SourceIndex s = 0; s < slots.size(); ++s) {
      owners_.push_back(model::owners_of(plan.owners, s, slots[s]));
      first_.push_back(next);
      next += owners_.back().most_slots();
    }
    first_.push_back(next);
  }

  size_t size() const { return first_.back(); }
  uint32_t of(const SampleId& id) const {
    OVERLORD_CHECK(id.source < owners_.size(), "a row of an unknown source");
    const uint32_t first = first_[id.source];
    if (first_[id.source + 1] - first == 1) return first;
    OVERLORD_CHECK(windows_ != nullptr, "a source of several slots has windows");
    const uint64_t per_pass = windows_->windows_per_pass(id.source);
    const uint64_t window = uint64_t{id.pass} * per_pass + windows_->window_of(id);
    return first + owners_[id.source].owner_of(window, per_pass);
  }
  LoaderSlot slot(uint32_t number) const {
    const auto after = std::upper_bound(first_.begin(), first_.end(), number);
    const auto source = static_cast<SourceIndex>(after - first_.begin() - 1);
    return {source, number - first_[source]};
  }

 private:
  SourceWindows* windows_;
  std::vector<model::Owners> owners_;  // by source
  std::vector<uint32_t> first_;        // by source, and the end
};

// Bins of the encoder's layer that ranks of a bucket encode, ascending, by bucket.
std::vector<std::vector<uint32_t>> encoded_bins(const model::Plan& plan) {
  const Layer* layer = plan.encoder();
  const Layer& backbone = plan.layers.front();
  std::vector<std::vector<uint32_t>> bins(backbone.buckets);
  if (layer == nullptr || !layer->encoder->table || !backbone.views) return bins;
  std::vector<std::vector<uint32_t>> buckets;  // by encoder: with ranks that run it
  for (const std::vector<Rank>& runners : layer->encoder->table->runners) {
    std::vector<uint32_t>& own = buckets.emplace_back();
    for (const Rank rank : runners) own.push_back(backbone.views->by_rank[rank].bucket);
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
  }
  for (uint32_t bin = 0; bin < layer->segments.size(); ++bin) {  // one segment each
    for (const uint32_t b : buckets[layer->placements[bin].bucket]) {
      if (b < bins.size()) bins[b].push_back(bin);
    }
  }
  return bins;
}

class Dealing {
 public:
  Dealing(const model::Plan& plan, std::span<const uint32_t> slots, SourceWindows* windows,
          std::optional<SourceIndex> only)
      : plan_(plan),
        only_(only),
        numbers_(plan, slots, windows),
        encoded_(encoded_bins(plan)),
        made_(numbers_.size()),
        counts_(numbers_.size()) {}

  void deal(model::PlanIndex* index) {
    owners_.reserve(plan_.layers.front().segments.size());
    each_row(*index, [this](uint32_t, uint32_t, const model::Segment& segment) {
      owners_.push_back(numbers_.of(segment.id));
      ++counts_[owners_.back()];
    });
    size_t next = 0;
    each_row(*index, [&](uint32_t bucket, uint32_t ordinal, const model::Segment& segment) {
      SlotRows& rows = rows_of(owners_[next++]);
      rows.rows.push_back({segment.id.position, segment.id.pass, ordinal,
                           segment.first + segment.count, segment.count});
      touch(bucket, &rows).rows_end = static_cast<uint32_t>(rows.rows.size());
    });
    OVERLORD_CHECK(next == owners_.size(), "every row is dealt once");
    deal_encoded();
  }

  // Those that have something.
  std::vector<DealtRows> dealt() {
    std::vector<DealtRows> out;
    for (uint32_t number = 0; number < made_.size(); ++number) {
      if (made_[number]) out.push_back({numbers_.slot(number), std::move(made_[number])});
    }
    return out;
  }

 private:
  void each_row(const model::PlanIndex& index, const auto& visit) const {
    const std::vector<model::Segment>& segments = plan_.layers.front().segments;
    for (uint32_t b = 0; b < index.buckets.size(); ++b) {
      const std::vector<uint32_t>& own = index.buckets[b].segments;
      for (uint32_t ordinal = 0; ordinal < own.size(); ++ordinal) {
        const model::Segment& segment = segments[own[ordinal]];
        if (!only_ || segment.id.source == *only_) visit(b, ordinal, segment);
      }
    }
  }

  // Buckets that have nothing of it but what their ranks encode may lie between the others.
  void deal_encoded() {
    if (plan_.encoder() == nullptr) return;
    std::vector<std::vector<std::pair<uint32_t, PlannedRow>>> found(made_.size());
    for (uint32_t b = 0; b < encoded_.size(); ++b) {
      for (const uint32_t bin : encoded_[b]) {
        const SampleId& id = plan_.encoder()->segments[bin].id;
        if (only_ && id.source != *only_) continue;
        found[numbers_.of(id)].push_back({b, {id.position, id.pass, bin}});
      }
    }
    for (uint32_t number = 0; number < found.size(); ++number) {
      if (!found[number].empty()) add_encoded(found[number], &rows_of(number));
    }
  }
  static void add_encoded(const std::vector<std::pair<uint32_t, PlannedRow>>& found,
                          SlotRows* rows) {
    std::vector<model::BucketRows> merged;
    auto plain = rows->buckets.begin();
    size_t next = 0;
    uint32_t rows_end = 0;
    while (plain != rows->buckets.end() || next < found.size()) {
      uint32_t bucket = next < found.size() ? found[next].first : plain->bucket;
      if (plain != rows->buckets.end()) bucket = std::min(bucket, plain->bucket);
      if (plain != rows->buckets.end() && plain->bucket == bucket) rows_end = (plain++)->rows_end;
      while (next < found.size() && found[next].first == bucket) {
        rows->encoded.push_back(found[next++].second);
      }
      merged.push_back({bucket, rows_end, static_cast<uint32_t>(rows->encoded.size())});
    }
    rows->buckets = std::move(merged);
  }

  SlotRows& rows_of(uint32_t number) {
    std::shared_ptr<SlotRows>& rows = made_[number];
    if (!rows) {
      rows = std::make_shared<SlotRows>();
      rows->step = plan_.step;
      rows->tree = plan_.versions.tree;
      rows->plan_hash = plan_.plan_hash;
      rows->rows.reserve(counts_[number]);
    }
    return *rows;
  }
  static model::BucketRows& touch(uint32_t bucket, SlotRows* rows) {
    if (rows->buckets.empty() || rows->buckets.back().bucket != bucket) {
      rows->buckets.push_back({bucket, 0, 0});
    }
    return rows->buckets.back();
  }

  const model::Plan& plan_;
  const std::optional<SourceIndex> only_;
  const SlotNumbers numbers_;
  const std::vector<std::vector<uint32_t>> encoded_;
  std::vector<std::shared_ptr<SlotRows>> made_;  // by number; null: it has nothing
  std::vector<uint32_t> counts_;
  std::vector<uint32_t> owners_;  // of the rows, in the order in which they are visited
};

}  // namespace

std::vector<DealtRows> deal_rows(const model::Plan& plan, std::span<const uint32_t> slots,
                                 SourceWindows* windows, model::PlanIndex* index) {
  Dealing dealing(plan, slots, windows, std::nullopt);
  dealing.deal(index);
  std::vector<DealtRows> dealt = dealing.dealt();
  for (const DealtRows& one : dealt) {
    OVERLORD_CHECK(one.rows->fits(), "rows that are dealt fit their buckets");
    for (const model::BucketRows& rows : one.rows->buckets) {
      index->buckets[rows.bucket].readers.push_back(one.slot);
    }
  }
  return dealt;
}

model::SlotRowsPtr rows_of(const model::Plan& plan, std::span<const uint32_t> slots,
                           SourceWindows* windows, const model::LoaderSlot& slot) {
  const auto index = model::PlanIndex::make(plan, static_cast<uint32_t>(slots.size()));
  Dealing dealing(plan, slots, windows, slot.source);
  dealing.deal(index.get());
  for (DealtRows& one : dealing.dealt()) {
    if (one.slot == slot) return std::move(one.rows);
  }
  return nullptr;
}

}  // namespace overlord::plan
