#include "status_dict.h"

#include <nanobind/stl/string.h>

#include "fields_dict.h"
#include "overlord/plan/mix/mixing.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

// Digests of sources are kept as 64 bits in a state; people see the same 16 digits everywhere.
std::string short_hex(const Digest& digest) { return digest.hex().substr(16); }

}  // namespace

nb::list quarantine_list(const std::vector<loader::QuarantineNote>& notes) {
  nb::list out;
  for (const loader::QuarantineNote& note : notes) {
    nb::dict row;
    row["source"] = note.id.source;
    row["pass"] = note.id.pass;
    row["position"] = note.id.position;
    row["row"] = note.row;
    row["reason"] = note.reason;
    row["when"] = note.late ? "late" : "before planning";
    out.append(row);
  }
  return out;
}

nb::dict section_dict(const std::vector<protocol::SectionDigest>& sections) {
  nb::dict out;
  for (const protocol::SectionDigest& section : sections) {
    const bool source = section.name.starts_with("source:");
    out[section.name.c_str()] = source ? short_hex(section.digest) : section.digest.hex();
  }
  return out;
}

nb::dict state_dict(const protocol::ResumeState& state) {
  nb::dict sources;
  for (size_t s = 0; s < state.source_names.size(); ++s) {
    const model::SourceCursor& cursor = state.state.cursors[s];
    nb::dict row;
    row["digest"] = short_hex(state.source_digests[s]);
    row["pass"] = cursor.pass;
    row["position"] = cursor.position;
    row["samples"] = cursor.samples;
    row["tokens"] = cursor.tokens;
    row["bad"] = cursor.bad;
    row["dropped"] = cursor.dropped;
    row["debt"] = static_cast<double>(cursor.debt) / static_cast<double>(plan::kDebtOne);
    sources[state.source_names[s].c_str()] = row;
  }
  nb::dict out;
  out["format"] = protocol::state_format(state);
  out["stream"] = state.stream;
  out["step"] = state.state.next_step;
  out["microbatch"] = state.microbatch;
  out["layout"] = state.layout;
  out["ended"] = state.state.ended;
  out["config_digest"] = state.config.hex();
  out["manifest_digest"] = state.manifest.hex();
  out["content_chain"] = state.content_chain.hex();
  out["plan_chain"] = state.plan_chain.hex();
  out["sections"] = section_dict(state.sections);
  out["sources"] = sources;
  // The newest weights of a metric-driven mixture: a rule's may have been decided and not count
  // yet.
  nb::dict weights;
  for (size_t s = 0; s < state.state.controller.sources.size(); ++s) {
    weights[state.source_names[s].c_str()] = state.state.controller.sources[s].weight;
  }
  for (const model::StepFeedback& feedback : state.feedback) {
    for (size_t s = 0; s < feedback.weights.size(); ++s) {
      weights[state.source_names[s].c_str()] = feedback.weights[s];
    }
  }
  out["weights"] = weights;
  out["totals"] = dict_of(state.state.totals);
  nb::dict bins;
  for (const model::BinsStage& stage : state.bins) {
    bins[std::to_string(stage.first_step).c_str()] = stage.bins;
  }
  out["bins"] = bins;
  out["carried"] = state.state.carried.size();
  out["leftover_dropped"] = state.state.leftover_dropped;
  return out;
}

}  // namespace overlord::python
