#include "overlord/node/status/metrics_text.h"

#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>

namespace overlord::node {
namespace {

using Kind = MetricText::Kind;
using Labels = MetricText::Labels;

constexpr uint64_t kNsPerSecond = 1'000'000'000;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

struct ProcessMemory {
  uint64_t resident = 0, fair_share = 0, own = 0, shared = 0;
};

// Nothing where it has ended, or is not for us to see.
std::optional<ProcessMemory> memory_of(uint32_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/smaps_rollup");
  std::string line;
  ProcessMemory out;
  bool seen = false;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    uint64_t kilobytes = 0;
    if (!(words >> name >> kilobytes)) continue;
    const uint64_t bytes = kilobytes * 1024;
    if (name == "Rss:") {
      out.resident = bytes;
      seen = true;
    } else if (name == "Pss:") {
      out.fair_share = bytes;
    } else if (name == "Private_Clean:" || name == "Private_Dirty:") {
      out.own += bytes;
    } else if (name == "Shared_Clean:" || name == "Shared_Dirty:") {
      out.shared += bytes;
    }
  }
  return seen ? std::optional(out) : std::nullopt;
}

// One figure of a T: its name after the prefix, its help, and where it is. Of the name follow unit
// and kind: seconds are counted in ns, and what has a _total only grows.
template <typename T>
struct Figure {
  std::string_view name, told;
  uint64_t T::* field;
};

template <typename T, size_t kSize>
void add_figures(const std::string& prefix, const T& value, const Figure<T> (&figures)[kSize],
                 const Labels& labels, MetricText* out) {
  for (const Figure<T>& figure : figures) {
    const std::string name = prefix + std::string(figure.name);
    if (name.ends_with("seconds_total")) {
      out->add_seconds(name, figure.told, value.*figure.field, labels);
    } else {
      out->add(name, name.ends_with("_total") ? Kind::kCounter : Kind::kGauge, figure.told,
               value.*figure.field, labels);
    }
  }
}

using Planner = planner::PlannerCounts<Plain>;
constexpr Figure<Planner> kPlanner[] = {
    {"plans_total", "Steps planned", &Planner::plans},
    {"planning_seconds_total", "Time spent planning", &Planner::planning_ns}};
using Journal = storage::JournalCounts<Plain>;
constexpr Figure<Journal> kJournal[] = {
    {"lag_records", "Records of the journal that are not on disk yet", &Journal::lag_records},
    {"syncs_total", "Times that the journal was written and synced", &Journal::syncs},
    {"written_bytes_total", "Bytes of it", &Journal::written_bytes}};
constexpr Figure<MemoryStatus> kMemory[] = {
    {"payload_bytes", "Payload in flight", &MemoryStatus::payload_bytes},
    {"pool_bytes", "Memory of all pools", &MemoryStatus::pool_held_bytes}};

constexpr Figure<LoaderStatus> kLoader[] = {
    {"queue_blocks", "Blocks that wait to be read", &LoaderStatus::queue},
    {"buffer_bytes", "Bytes of rows kept ready", &LoaderStatus::buffer_bytes},
    {"transform_seconds_total", "Time spent decoding and tokenising", &LoaderStatus::transform_ns},
    {"python_seconds_total", "Of it in its own Python transform", &LoaderStatus::python_ns},
    {"in_flight_bytes", "Bytes that constructors have not let go of",
     &LoaderStatus::in_flight_bytes},
    {"worker_bytes", "Resident memory of the processes that tokenise its rows or run its Python",
     &LoaderStatus::worker_bytes},
    {"reads", "Whether the slot is one of those that read its source now", &LoaderStatus::reads}};
using Loader = loader::LoaderCounts<Plain>;
constexpr Figure<Loader> kLoaderCounts[] = {
    {"in_work_blocks", "Blocks that are being read", &Loader::in_work},
    {"rows_total", "Rows made ready", &Loader::rows_posted},
    {"documents_total", "Documents handed over", &Loader::documents},
    {"read_bytes_total", "Bytes read from storage", &Loader::read_bytes},
    {"bad_rows_total", "Rows found bad", &Loader::bad_rows},
    {"empty_rows_total", "Empty rows that were skipped", &Loader::empty_rows},
    {"sent_bytes_total", "Bytes handed to constructors", &Loader::sent_bytes},
    {"send_seconds_total", "Time spent handing documents over", &Loader::send_ns},
    {"decode_seconds_total", "Of it decoding blocks of rows", &Loader::decode_ns},
    {"tokenise_seconds_total", "Of it tokenising", &Loader::tokenise_ns},
    {"media_seconds_total", "Of it decoding and transforming media", &Loader::media_ns},
    {"read_wait_seconds_total", "Time spent waiting for storage", &Loader::read_wait_ns}};

using Unpack = constructor::UnpackCounts<Plain>;
constexpr Figure<Unpack> kUnpack[] = {
    {"seconds_total", "Time constructors spent decoding its media", &Unpack::unpack_ns},
    {"in_bytes_total", "Bytes of media that they decoded", &Unpack::in_bytes},
    {"out_bytes_total", "Bytes that they made of them", &Unpack::out_bytes}};

using Client = client::ClientCounts<Plain>;
constexpr Figure<Client> kClient[] = {
    {"steps_total", "Steps that the rank consumed", &Client::steps_consumed},
    {"microbatches_total", "Microbatches handed out", &Client::microbatches},
    {"wait_seconds_total", "Time the rank waited for its next microbatch", &Client::wait_ns}};

using Constructor = constructor::ConstructorCounts<Plain>;
constexpr Figure<Constructor> kConstructor[] = {
    {"steps_ready", "Steps assembled and kept", &Constructor::steps_ready},
    {"assembled_bytes_total", "Bytes of microbatches assembled", &Constructor::bytes_assembled},
    {"assemble_seconds_total", "Time spent assembling", &Constructor::assemble_ns}};

void add_node(const NodeStatus& status, MetricText* out) {
  out->add("overlord_up", Kind::kGauge, "Whether the node answers", 1);
  out->add("overlord_serving", Kind::kGauge, "Whether all ranks are attached", status.serving);
  out->add("overlord_attempt", Kind::kGauge, "The attempt that is served", status.attempt);
  out->add("overlord_term", Kind::kGauge, "How many planners this journal has had", status.term);
  out->add("overlord_missing_ranks", Kind::kGauge, "Ranks not attached yet", status.missing.size());
  out->add("overlord_gone_ranks", Kind::kGauge, "Ranks that have died", status.gone.size());
  out->add("overlord_promotions_total", Kind::kCounter, "Loader slots that a shadow has taken over",
           status.promotions);
  out->add("overlord_shadowed_slots", Kind::kGauge, "Loader slots with a living shadow",
           status.shadowed);
  out->add("overlord_unprotected_slots", Kind::kGauge,
           "Loader slots whose shadows are all gone at the moment", status.unprotected);
  out->add("overlord_shadow_bytes", Kind::kGauge, "Decoded blocks that shadows hold",
           status.shadow_bytes);
  add_figures("overlord_", status.engine.planner.counts, kPlanner, {}, out);
  add_figures("overlord_journal_", status.engine.planner.journal, kJournal, {}, out);
  add_figures("overlord_", status.engine.memory, kMemory, {}, out);
}

void add_roles(const EngineStatus& status, MetricText* out) {
  for (const LoaderStatus& loader : status.loaders) {
    const Labels labels = {{"source", loader.source}, {"slot", std::to_string(loader.slot)}};
    add_figures("overlord_source_", loader, kLoader, labels, out);
    add_figures("overlord_source_", loader.counts, kLoaderCounts, labels, out);
  }
  for (const UnpackStatus& unpacking : status.unpacking) {
    const Labels labels = {{"source", unpacking.source}};
    add_figures("overlord_source_unpack_", unpacking.counts, kUnpack, labels, out);
    out->add("overlord_source_unpack_held_bytes", Kind::kGauge,
             "Of these, for steps that are not laid out", unpacking.held_bytes, labels);
  }
  for (const ClientStatus& client : status.clients) {
    const Labels labels = {{"rank", std::to_string(client.rank)}};
    add_figures("overlord_rank_", client.counts, kClient, labels, out);
    out->add("overlord_rank_queue_steps", Kind::kGauge, "Steps that lie ready for the rank",
             client.queue, labels);
  }
  for (const ConstructorStatus& constructor : status.constructors) {
    add_figures("overlord_constructor_", constructor.counts, kConstructor,
                {{"group", std::to_string(constructor.bucket)}}, out);
  }
}

void add_process(const std::string& called, uint32_t process, uint32_t restarts, MetricText* out) {
  // A trainer's pid would make a series of every start.
  const Labels labels = {{"process", called.substr(0, called.find('@'))}};
  const std::string name = "overlord_process_";
  out->add(name + "restarts_total", Kind::kCounter, "How often the process was started again",
           restarts, labels);
  const std::optional<ProcessMemory> memory = memory_of(process);
  if (!memory) return;
  out->add(name + "rss_bytes", Kind::kGauge, "Resident memory", memory->resident, labels);
  out->add(name + "pss_bytes", Kind::kGauge,
           "Resident memory, shared pages divided among those that map them", memory->fair_share,
           labels);
  out->add(name + "private_bytes", Kind::kGauge, "Memory that no other process maps", memory->own,
           labels);
  out->add(name + "shared_bytes", Kind::kGauge, "Resident memory that other processes map as well",
           memory->shared, labels);
}

}  // namespace

void MetricText::add_text(const std::string& name, Kind kind, std::string_view told,
                          const std::string& value, const Labels& labels) {
  const auto [found, fresh] = known_.try_emplace(name, families_.size());
  if (fresh) {
    families_.push_back({"# HELP " + name + " " + std::string(told) + ".\n# TYPE " + name +
                             (kind == Kind::kCounter ? " counter\n" : " gauge\n"),
                         {}});
  }
  std::string inner;
  for (const Labels* some : {&everywhere_, &labels}) {
    for (const auto& [key, text] : *some) {
      inner += (inner.empty() ? "" : ",") + key + "=\"" + escaped(text) + "\"";
    }
  }
  families_[found->second].samples +=
      name + (inner.empty() ? "" : "{" + inner + "}") + " " + value + "\n";
}

void MetricText::add(const std::string& name, Kind kind, std::string_view told, uint64_t value,
                     const Labels& labels) {
  add_text(name, kind, told, std::to_string(value), labels);
}

void MetricText::add_seconds(const std::string& name, std::string_view told, uint64_t ns,
                             const Labels& labels) {
  char text[40];
  std::snprintf(text, sizeof text, "%llu.%09llu",
                static_cast<unsigned long long>(ns / kNsPerSecond),
                static_cast<unsigned long long>(ns % kNsPerSecond));
  add_text(name, Kind::kCounter, told, text, labels);
}

std::string MetricText::text() const {
  std::string out;
  for (const Family& family : families_) out += family.head + family.samples;
  return out;
}

std::string metrics_text(const NodeStatus& status) {
  MetricText out({{"job", status.job}, {"stream", status.stream}});
  add_node(status, &out);
  add_roles(status.engine, &out);
  add_process("node", status.process, status.recoveries, &out);
  for (const ProcessStatus& process : status.processes) {
    add_process(process.name, process.process, process.restarts, &out);
  }
  return out.text();
}

}  // namespace overlord::node
