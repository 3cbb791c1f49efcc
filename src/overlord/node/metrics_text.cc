#include "overlord/node/metrics_text.h"

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

void add_node(const NodeStatus& status, MetricText* out) {
  out->add("overlord_up", Kind::kGauge, "Whether the node answers", 1);
  out->add("overlord_serving", Kind::kGauge, "Whether all ranks are attached", status.serving);
  out->add("overlord_attempt", Kind::kGauge, "The attempt that is served", status.attempt);
  out->add("overlord_missing_ranks", Kind::kGauge, "Ranks not attached yet", status.missing.size());
  out->add("overlord_gone_ranks", Kind::kGauge, "Ranks that have died", status.gone.size());
  out->add("overlord_plans_total", Kind::kCounter, "Steps planned", status.engine.plans);
  out->add_seconds("overlord_planning_seconds_total", "Time spent planning",
                   status.engine.planning_ns);
  out->add("overlord_payload_bytes", Kind::kGauge, "Payload in flight",
           status.engine.payload_bytes);
  out->add("overlord_pool_bytes", Kind::kGauge, "Memory of all pools",
           status.engine.pool.held_bytes);
}

void add_loader(const LoaderStatus& loader, MetricText* out) {
  const Labels labels = {{"source", loader.source}, {"slot", std::to_string(loader.slot)}};
  const std::string name = "overlord_source_";
  out->add(name + "queue_blocks", Kind::kGauge, "Blocks that wait to be read", loader.queue,
           labels);
  out->add(name + "in_work_blocks", Kind::kGauge, "Blocks that are being read", loader.in_work,
           labels);
  out->add(name + "rows_total", Kind::kCounter, "Rows made ready", loader.rows_posted, labels);
  out->add(name + "documents_total", Kind::kCounter, "Documents handed over", loader.documents,
           labels);
  out->add(name + "read_bytes_total", Kind::kCounter, "Bytes read from storage", loader.read_bytes,
           labels);
  out->add(name + "bad_rows_total", Kind::kCounter, "Rows found bad", loader.bad_rows, labels);
  out->add(name + "empty_rows_total", Kind::kCounter, "Empty rows that were skipped",
           loader.empty_rows, labels);
  out->add(name + "buffer_bytes", Kind::kGauge, "Bytes of rows kept ready", loader.buffer_bytes,
           labels);
  out->add(name + "sent_bytes_total", Kind::kCounter, "Bytes handed to constructors",
           loader.sent_bytes, labels);
  out->add_seconds(name + "transform_seconds_total", "Time spent decoding and tokenising",
                   loader.transform_ns, labels);
  out->add_seconds(name + "decode_seconds_total", "Of it decoding blocks of rows", loader.decode_ns,
                   labels);
  out->add_seconds(name + "python_seconds_total", "Of it in its own Python transform",
                   loader.python_ns, labels);
  out->add_seconds(name + "tokenise_seconds_total", "Of it tokenising", loader.tokenise_ns, labels);
  out->add_seconds(name + "media_seconds_total", "Of it decoding and transforming media",
                   loader.media_ns, labels);
  out->add_seconds(name + "read_wait_seconds_total", "Time spent waiting for storage",
                   loader.read_wait_ns, labels);
  out->add(name + "in_flight_bytes", Kind::kGauge, "Bytes that constructors have not let go of",
           loader.in_flight_bytes, labels);
  out->add(name + "worker_bytes", Kind::kGauge,
           "Resident memory of the processes that tokenise its rows or run its Python",
           loader.worker_bytes, labels);
}

void add_unpack(const UnpackStatus& unpacking, MetricText* out) {
  const Labels labels = {{"source", unpacking.source}};
  const std::string name = "overlord_source_unpack_";
  out->add_seconds(name + "seconds_total", "Time constructors spent decoding its media",
                   unpacking.unpack_ns, labels);
  out->add(name + "in_bytes_total", Kind::kCounter, "Bytes of media that they decoded",
           unpacking.in_bytes, labels);
  out->add(name + "out_bytes_total", Kind::kCounter, "Bytes that they made of them",
           unpacking.out_bytes, labels);
  out->add(name + "held_bytes", Kind::kGauge, "Of these, for steps that are not laid out",
           unpacking.held_bytes, labels);
}

void add_client(const ClientStatus& client, MetricText* out) {
  const Labels labels = {{"rank", std::to_string(client.rank)}};
  const std::string name = "overlord_rank_";
  out->add(name + "steps_total", Kind::kCounter, "Steps that the rank consumed",
           client.steps_consumed, labels);
  out->add(name + "microbatches_total", Kind::kCounter, "Microbatches handed out",
           client.microbatches, labels);
  out->add_seconds(name + "wait_seconds_total", "Time the rank waited for its next microbatch",
                   client.wait_ns, labels);
  out->add(name + "queue_steps", Kind::kGauge, "Steps that lie ready for the rank", client.queue,
           labels);
}

void add_constructor(const ConstructorStatus& constructor, MetricText* out) {
  const Labels labels = {{"group", std::to_string(constructor.bucket)}};
  const std::string name = "overlord_constructor_";
  out->add(name + "steps_ready", Kind::kGauge, "Steps assembled and kept", constructor.steps_ready,
           labels);
  out->add(name + "assembled_bytes_total", Kind::kCounter, "Bytes of microbatches assembled",
           constructor.bytes_assembled, labels);
  out->add_seconds(name + "assemble_seconds_total", "Time spent assembling",
                   constructor.assemble_ns, labels);
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
  for (const LoaderStatus& loader : status.engine.loaders) add_loader(loader, &out);
  for (const UnpackStatus& unpacking : status.engine.unpacking) add_unpack(unpacking, &out);
  for (const ClientStatus& client : status.engine.clients) add_client(client, &out);
  for (const ConstructorStatus& one : status.engine.constructors) add_constructor(one, &out);
  add_process("node", status.process, 0, &out);
  for (const ProcessStatus& process : status.processes) {
    add_process(process.name, process.process, process.restarts, &out);
  }
  return out.text();
}

}  // namespace overlord::node
