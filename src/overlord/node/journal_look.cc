#include "overlord/node/journal_look.h"

#include <utility>
#include <variant>

#include "overlord/model/callout.h"
#include "overlord/model/mesh.h"
#include "overlord/protocol/journal/record_chain.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/roles/planner/journal_fold.h"
#include "overlord/storage/journal_folder.h"

namespace overlord::node {
namespace {

std::string mesh_text(const std::vector<model::Axis>& axes) {
  std::string out;
  for (const model::Axis& axis : axes) {
    out += (out.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  }
  return out;
}

// The fold has the last plans alone, a journal those since it was last compacted.
void note_plan(const protocol::JournalRecord& record, JournalLook* out) {
  if (std::holds_alternative<protocol::JournalStart>(record)) out->plans.clear();
  if (const auto* tree = std::get_if<protocol::TreeRecord>(&record)) {
    std::erase_if(out->plans, [&](const auto& plan) { return plan.step >= tree->first_step; });
  }
  const auto* plan = std::get_if<protocol::PlanRecord>(&record);
  if (plan == nullptr) return;
  out->plans.push_back({plan->step, plan->content_hash.hex(), plan->plan_hash.hex()});
}

Result<planner::JournalFold> fold_records(const std::vector<std::string>& records,
                                          const std::string& path, JournalLook* out) {
  planner::JournalFold fold;
  protocol::JournalReader reader;
  for (const std::string& bytes : records) {
    // Its frame is whole, so no byte was lost: it is of another writer, or of a bug.
    const std::string where = path + ": record " + std::to_string(out->records);
    Result<protocol::JournalRecord> record = reader.read(bytes);
    if (!record.ok()) return record.status().with_context(where);
    if (const Status applied = fold.apply(*record); !applied.ok()) {
      return applied.with_context(where);
    }
    note_plan(*record, out);
    ++out->records;
  }
  return fold;
}

void tell_start(const planner::JournalFold& fold, JournalLook* out) {
  const protocol::JournalStart& start = fold.start();
  out->config = start.config.hex();
  out->manifest = start.manifest.hex();
  out->run = start.run;
  out->attempt = start.versions.attempt;
  out->term = start.versions.generation;
  out->first_step = start.first_step;
  out->remade_from = fold.base_step();
  out->next_step = fold.next_step();
  out->retired = fold.retired().size();
}

void tell_inputs(const planner::JournalFold& fold, JournalLook* out) {
  for (const auto& [step, one] : fold.feedback()) {
    out->feedback.push_back(
        {step, one.effective, one.feedback.losses.size(), !one.feedback.weights.empty()});
  }
  for (const protocol::TreeRecord& one : fold.trees()) {
    out->trees.push_back({one.versions.tree, one.first_step, mesh_text(one.axes), one.ranks});
  }
  for (const auto& [source, one] : fold.owners()) {
    const model::OwnerRange& newest = one.owners.ranges.back();
    out->owners.push_back(
        {source, newest.slots, newest.first_window, one.advised, one.reason, one.inputs});
  }
  for (const auto& [id, one] : fold.late_bad()) {
    out->late_bad.push_back({one.step, id.source, id.pass, id.position, one.reason});
  }
  for (const protocol::CalloutRecord& one : fold.callouts()) {
    out->callouts.push_back({one.step, std::string(model::callout_kind_name(one.kind)),
                             one.function.name, one.function.version, one.values.size()});
  }
  if (fold.failure()) out->failure = {fold.failure()->step, fold.failure()->status.message()};
}

Status tell_end(const planner::JournalFold& fold, JournalLook* out) {
  const std::string& last =
      fold.plans().empty() ? fold.start().state : fold.plans().back().state_after;
  OVERLORD_TRY(const model::StreamState state, protocol::decode_stream_state(last));
  out->ended = state.ended;
  return {};
}

}  // namespace

Result<JournalLook> look_at_journal(const std::string& folder) {
  OVERLORD_TRY(const storage::JournalFolder read, storage::read_journal(folder));
  JournalLook out;
  out.folder = folder;
  for (const storage::SegmentInfo& segment : read.segments) {
    out.segments.push_back(
        {segment.name.text(), segment.name.term, segment.name.number, segment.size_bytes});
  }
  out.valid_bytes = read.contents.valid_bytes;
  out.cut_bytes = read.contents.cut_bytes;
  if (!read.contents.segment) return out;
  out.counts = read.contents.segment->text();
  const std::string path = folder + "/" + out.counts;
  OVERLORD_TRY(const planner::JournalFold fold, fold_records(read.contents.records, path, &out));
  if (!fold.started()) return bad_data(path + ": it has no start");
  tell_start(fold, &out);
  tell_inputs(fold, &out);
  OVERLORD_RETURN_IF_ERROR(tell_end(fold, &out));
  return out;
}

}  // namespace overlord::node
