// MadeUpJob: a job whose documents exist only as lengths, for the tests of this room. Every pass of
// a source has the same lengths; metadata is posted in windows of `window_rows`, as loaders do.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "overlord/base/rng.h"
#include "overlord/model/job_spec.h"
#include "overlord/plan/select/selection.h"

namespace overlord::plan {

struct MadeUpSource {
  std::vector<uint32_t> lengths;                    // 0: a bad row
  std::vector<std::vector<model::LossSpan>> spans;  // by row; empty: unmasked
  std::vector<model::MetaColumn> columns;           // a value by row
  std::vector<uint64_t> group_ends;  // by row; no group lies in two windows. Empty: no groups

  // Groups of `rows`, or fewer where a window ends.
  void group(uint64_t rows, uint64_t window_rows) {
    for (uint64_t row = 0; row < lengths.size(); ++row) {
      const uint64_t window = row - row % window_rows;
      const uint64_t end = window + ((row - window) / rows + 1) * rows;
      group_ends.push_back(std::min<uint64_t>({end, window + window_rows, lengths.size()}));
    }
  }
};

struct MadeUpJob {
  model::JobSpec spec;
  std::vector<MadeUpSource> sources;
  std::vector<uint64_t> rows;
  uint32_t window_rows = 16;

  MadeUpJob(uint32_t context, uint32_t bins) {
    spec.context = context;
    spec.bins = bins;
    spec.mixture.stages = {{0, {}}};
  }

  model::Source& add(std::vector<uint32_t> lengths, model::EndPolicy at_end,
                     int64_t weight = model::kWeightOne) {
    model::Source& source = spec.sources.emplace_back();
    source.name = "source" + std::to_string(spec.sources.size() - 1);
    source.at_end = at_end;
    rows.push_back(lengths.size());
    sources.push_back({std::move(lengths), {}, {}, {}});
    spec.mixture.stages[0].weights.push_back(weight);
    return source;
  }

  MetaWindowPtr window(SourceIndex source, uint32_t pass, uint64_t first) const {
    const MadeUpSource& made_up = sources[source];
    auto out = std::make_shared<model::MetaWindow>();
    out->first = {source, pass, first};
    const uint64_t end = std::min<uint64_t>(first + window_rows, made_up.lengths.size());
    for (const model::MetaColumn& column : made_up.columns) {
      out->columns.push_back(
          {column.name, std::vector<int64_t>(column.values.begin() + static_cast<ptrdiff_t>(first),
                                             column.values.begin() + static_cast<ptrdiff_t>(end))});
    }
    for (uint64_t row = first; row < end; ++row) {
      out->tokens.push_back(made_up.lengths[row]);
      if (made_up.lengths[row] == 0) {
        out->bad.push_back({static_cast<uint32_t>(row - first), "torn row " + std::to_string(row)});
      }
      if (!made_up.group_ends.empty()) {
        out->group_ends.push_back(static_cast<uint32_t>(made_up.group_ends[row] - first));
      }
      if (made_up.spans.empty()) continue;
      out->spans.insert(out->spans.end(), made_up.spans[row].begin(), made_up.spans[row].end());
      out->span_ends.push_back(static_cast<uint32_t>(out->spans.size()));
    }
    return out;
  }

  std::vector<MetaBuffer> post(uint32_t passes) const {
    std::vector<MetaBuffer> meta(sources.size());
    for (SourceIndex s = 0; s < sources.size(); ++s) {
      for (uint32_t pass = 0; pass < passes; ++pass) {
        for (uint64_t first = 0; first < rows[s]; first += window_rows) {
          meta[s].post(window(s, pass, first));
        }
      }
    }
    return meta;
  }

  // Length of the document as the stream holds it.
  uint32_t held_length(const SampleId& id) const {
    const uint32_t length = sources[id.source].lengths[id.position];
    const bool cut = spec.sources[id.source].over_length == model::OverLength::kTruncate;
    return cut ? std::min(length, spec.context) : length;
  }
};

// A step that was selected, and the state after it.
struct MadeUpStep {
  StepContent content;
  model::StreamState after;
};

// The first `most` steps, or fewer where the stream ends; metadata of `passes` passes is posted.
inline Result<std::vector<MadeUpStep>> run_steps(const MadeUpJob& job, uint64_t most,
                                                 uint32_t passes = 1) {
  const auto meta = job.post(passes);
  std::vector<MadeUpStep> steps;
  Selector selector;
  model::StreamState state = initial_state(job.spec);
  while (!state.ended && steps.size() < most) {
    OVERLORD_TRY(Selection selection, selector.step(job.spec, job.rows, state, meta));
    if (!selection.content) return internal_error("waits for what is not there");
    state = selection.after;
    steps.push_back({std::move(*selection.content), std::move(selection.after)});
  }
  return steps;
}

inline bool same(const model::Carried& a, const model::Carried& b) {
  const auto same_span = [](const model::LossSpan& x, const model::LossSpan& y) {
    return x.first == y.first && x.count == y.count;
  };
  return a.id == b.id && a.first == b.first && a.tokens == b.tokens && a.end == b.end &&
         a.drawn_step == b.drawn_step && a.masked == b.masked && a.columns == b.columns &&
         a.joined == b.joined &&
         std::equal(a.spans.begin(), a.spans.end(), b.spans.begin(), b.spans.end(), same_span);
}

inline bool same(const model::StreamState& a, const model::StreamState& b) {
  return a.next_step == b.next_step && a.cursors == b.cursors &&
         a.leftover_dropped == b.leftover_dropped && a.ended == b.ended &&
         std::equal(a.carried.begin(), a.carried.end(), b.carried.begin(), b.carried.end(),
                    [](const auto& x, const auto& y) { return same(x, y); });
}

inline bool same(const StepContent& a, const StepContent& b) {
  const auto same_segment = [](const model::Segment& x, const model::Segment& y) {
    return x.id == y.id && x.first == y.first && x.count == y.count && x.part == y.part &&
           x.flags == y.flags && x.targets == y.targets;
  };
  return a.bin_ends == b.bin_ends && a.tokens == b.tokens && a.target_tokens == b.target_tokens &&
         a.asked == b.asked && a.served == b.served && a.max_delay == b.max_delay &&
         a.last == b.last &&
         std::equal(a.columns.begin(), a.columns.end(), b.columns.begin(), b.columns.end(),
                    [](const model::MetaColumn& x, const model::MetaColumn& y) {
                      return x.name == y.name && x.values == y.values;
                    }) &&
         std::equal(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(),
                    same_segment);
}

inline Result<Selection> select_step(const model::JobSpec& spec, std::span<const uint64_t> rows,
                                     const model::StreamState& before,
                                     std::span<const MetaBuffer> meta) {
  return Selector().step(spec, rows, before, meta);
}

// Lengths that look like text: most short, some long (a geometric choice of magnitude).
inline std::vector<uint32_t> text_lengths(uint64_t key, uint64_t count, uint32_t longest) {
  std::vector<uint32_t> lengths(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t halvings = uniform_below(key, i, 0, 6);
    lengths[i] = static_cast<uint32_t>(
        1 + uniform_below(key, i, 1, std::max<uint64_t>(longest >> halvings, 1)));
  }
  return lengths;
}

}  // namespace overlord::plan
