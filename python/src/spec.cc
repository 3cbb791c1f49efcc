// Binds the value types of model/: what the config layer fills in.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "cost_dict.h"
#include "errors.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/node/indexing.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

void bind_enums(nb::module_& m) {
  using namespace model;
  nb::enum_<Format>(m, "Format")
      .value("parquet", Format::kParquet)
      .value("jsonl", Format::kJsonl)
      .value("megatron", Format::kMegatron)
      .value("webdataset", Format::kWebDataset)
      .value("arrow", Format::kArrow);
  nb::enum_<Shuffle>(m, "Shuffle")
      .value("none", Shuffle::kNone)
      .value("window", Shuffle::kWindow)
      .value("full", Shuffle::kFull);
  nb::enum_<DecodeAt>(m, "DecodeAt")
      .value("auto", DecodeAt::kAuto)
      .value("loader", DecodeAt::kLoader)
      .value("constructor", DecodeAt::kConstructor);
  nb::enum_<EndPolicy>(m, "EndPolicy")
      .value("repeat", EndPolicy::kRepeat)
      .value("drop", EndPolicy::kDrop)
      .value("stop", EndPolicy::kStop);
  nb::enum_<OverLength>(m, "OverLength")
      .value("split", OverLength::kSplit)
      .value("truncate", OverLength::kTruncate)
      .value("drop", OverLength::kDrop);
  nb::enum_<EmptyRows>(m, "EmptyRows")
      .value("bad", EmptyRows::kBad)
      .value("skip", EmptyRows::kSkip);
  nb::enum_<TokenizerKind>(m, "TokenizerKind")
      .value("none", TokenizerKind::kNone)
      .value("bytes", TokenizerKind::kBytes)
      .value("huggingface", TokenizerKind::kHuggingFace);
  nb::enum_<MixUnit>(m, "MixUnit")
      .value("tokens", MixUnit::kTokens)
      .value("samples", MixUnit::kSamples)
      .value("bytes", MixUnit::kBytes);
  nb::enum_<Ramp>(m, "Ramp")
      .value("none", Ramp::kNone)
      .value("linear", Ramp::kLinear)
      .value("cosine", Ramp::kCosine);
  nb::enum_<Grain>(m, "Grain")
      .value("step", Grain::kStep)
      .value("substep", Grain::kSubstep)
      .value("epoch", Grain::kEpoch);
  nb::enum_<ControllerKind>(m, "ControllerKind")
      .value("none", ControllerKind::kNone)
      .value("odm", ControllerKind::kOdm)
      .value("ado", ControllerKind::kAdo)
      .value("rule", ControllerKind::kRule);
  nb::enum_<Quota>(m, "Quota")
      .value("exact", Quota::kExact)
      .value("multinomial", Quota::kMultinomial);
  nb::enum_<Packing>(m, "Packing")
      .value("best_fit", Packing::kBestFit)
      .value("concat", Packing::kConcat)
      .value("pad", Packing::kPad);
  nb::enum_<Leftover>(m, "Leftover")
      .value("drain", Leftover::kDrain)
      .value("drop", Leftover::kDropCounted);
}

void bind_delivery_enums(nb::module_& m) {
  using namespace model;
  nb::enum_<Slicing>(m, "Slicing")
      .value("trainer", Slicing::kTrainer)
      .value("sequence_zigzag", Slicing::kSequenceZigzag)
      .value("document_zigzag", Slicing::kDocumentZigzag)
      .value("contiguous", Slicing::kContiguous);
  nb::enum_<TokenType>(m, "TokenType")
      .value("uint16", TokenType::kUint16)
      .value("int32", TokenType::kInt32)
      .value("int64", TokenType::kInt64);
  nb::enum_<WeightType>(m, "WeightType")
      .value("uint8", WeightType::kUint8)
      .value("float32", WeightType::kFloat32);
}

void bind_source_parts(nb::module_& m) {
  using namespace model;
  nb::class_<Tokenizer>(m, "Tokenizer", "How a source's text becomes tokens.")
      .def(nb::init<>())
      .def_rw("kind", &Tokenizer::kind)
      .def_rw("path", &Tokenizer::path)
      .def_rw("digest", &Tokenizer::digest)
      .def_rw("add_special_tokens", &Tokenizer::add_special_tokens)
      .def_rw("chat", &Tokenizer::chat);
  nb::enum_<RowText>(m, "RowText")
      .value("column", RowText::kColumn)
      .value("record", RowText::kRecord)
      .value("interleaved", RowText::kInterleaved);
  nb::class_<RowSchema>(m, "RowSchema", "How text is made of more than one column.")
      .def(nb::init<>())
      .def_rw("text", &RowSchema::text)
      .def_rw("columns", &RowSchema::columns)
      .def_rw("required", &RowSchema::required)
      .def_rw("expected", &RowSchema::expected)
      .def_rw("marker", &RowSchema::marker)
      .def_rw("separator", &RowSchema::separator)
      .def_rw("masked", &RowSchema::masked);
  nb::enum_<Lane>(m, "Lane").value("process", Lane::kProcess).value("thread", Lane::kThread);
  nb::class_<Transform>(m, "Transform",
                        "A user's own Python over the rows of a source, or over its media.")
      .def(nb::init<>())
      .def_rw("function", &Transform::function)
      .def_rw("version", &Transform::version)
      .def_rw("lane", &Transform::lane)
      .def_rw("command", &Transform::command)
      .def_rw("workers", &Transform::workers)
      .def_rw("batch_rows", &Transform::batch_rows)
      .def_rw("deadline_ms", &Transform::deadline_ms)
      .def_rw("memory_bytes", &Transform::memory_bytes)
      .def_rw("check_every", &Transform::check_every)
      .def_prop_ro("key", &Transform::key);
  nb::class_<SourceLimits>(m, "SourceLimits", "What one bad file or row may cost.")
      .def(nb::init<>())
      .def_rw("max_document_bytes", &SourceLimits::max_document_bytes)
      .def_rw("max_block_bytes", &SourceLimits::max_block_bytes)
      .def_rw("max_expansion", &SourceLimits::max_expansion)
      .def_rw("max_media_bytes", &SourceLimits::max_media_bytes);
}

// Fields are added one by one; what follows is said of the last.
void bind_source_media(nb::class_<model::Source>& bound) {
  using namespace model;
  bound
      .def(
          "add_media",
          [](Source& source, std::string name, std::vector<std::string> places, bool many) {
            source.media.push_back({std::move(name), std::move(places), std::nullopt, many});
          },
          nb::arg("name"), nb::arg("places"), nb::arg("many") = false)
      .def(
          "use_media",
          [](Source& source, const std::string& kind, const std::string& transform) {
            model::MediaField& field = source.media.back();
            field.use = unwrap(node::media_use(kind, transform, field.from));
          },
          nb::arg("kind"), nb::arg("transform"),
          "The field that was added last travels with its documents, transformed.")
      .def(
          "place_media",
          [](Source& source, uint32_t pad, std::optional<uint32_t> before,
             std::optional<uint32_t> after, uint32_t pads, uint32_t units_per_pad, bool in_text) {
            model::MediaUse& use = source.media.back().use.value();
            use.pad = pad;
            use.before = before;
            use.after = after;
            use.pads = pads;
            use.units_per_pad = units_per_pad;
            use.in_text = in_text;
          },
          nb::arg("pad"), nb::arg("before").none(), nb::arg("after").none(), nb::arg("pads"),
          nb::arg("units_per_pad"), nb::arg("in_text") = false,
          "The tokens of the field that was used last.")
      .def(
          "call_on_media",
          [](Source& source, const Transform& function) {
            source.media.back().use.value().function = function;
          },
          nb::arg("function"), "What the field that was used last goes through after its chain.");
}

void bind_source(nb::module_& m) {
  using namespace model;
  bind_source_parts(m);
  nb::class_<Source> source(m, "Source", "One dataset: a name, files, columns and policies.");
  bind_source_media(source);
  source.def(nb::init<>())
      .def_rw("name", &Source::name)
      .def_rw("format", &Source::format)
      .def_rw("files", &Source::files)
      .def_rw("text_column", &Source::text_column)
      .def_rw("token_column", &Source::token_column)
      .def_rw("mask_column", &Source::mask_column)
      .def_rw("metadata_columns", &Source::metadata_columns)
      .def(
          "set_filter",
          [](Source& source, std::string column, uint32_t least, uint32_t most) {
            source.filter = RowFilter{std::move(column), least, most};
          },
          nb::arg("column"), nb::arg("least"), nb::arg("most"))
      .def_rw("tokenizer", &Source::tokenizer)
      .def_rw("bos", &Source::bos, nb::arg().none())
      .def_rw("eod", &Source::eod, nb::arg().none())
      .def_rw("vocabulary", &Source::vocabulary)
      .def_rw("shuffle", &Source::shuffle)
      .def_rw("window_rows", &Source::window_rows)
      .def_rw("window_bytes", &Source::window_bytes)
      .def_rw("at_end", &Source::at_end)
      .def_rw("over_length", &Source::over_length)
      .def_rw("empty", &Source::empty)
      .def_rw("bad_rows_allowed", &Source::bad_rows_allowed)
      .def_rw("allow_duplicates", &Source::allow_duplicates)
      .def_rw("limits", &Source::limits)
      .def_rw("loaders", &Source::loaders)
      .def_rw("workers", &Source::workers)
      .def_rw("count_bytes", &Source::count_bytes)
      .def_rw("transform", &Source::transform)
      .def_rw("decode_at", &Source::decode_at)
      .def_rw("schema", &Source::schema);
}

void bind_job_spec(nb::module_& m) {
  using namespace model;
  nb::class_<MixtureStage>(m, "MixtureStage", "Weights that hold from a step on.")
      .def(nb::init<>())
      .def_rw("first_step", &MixtureStage::first_step)
      .def_rw("weights", &MixtureStage::weights)
      .def_rw("ramp", &MixtureStage::ramp)
      .def_rw("ramp_steps", &MixtureStage::ramp_steps);
  nb::class_<ControllerSpec>(m, "ControllerSpec", "How reported losses move the weights.")
      .def(nb::init<>())
      .def_rw("kind", &ControllerSpec::kind)
      .def_rw("delay", &ControllerSpec::delay)
      .def_rw("smoothing", &ControllerSpec::smoothing)
      .def_rw("history_rate", &ControllerSpec::history_rate)
      .def_rw("follow_rate", &ControllerSpec::follow_rate)
      .def_rw("history_exponent", &ControllerSpec::history_exponent)
      .def_rw("floor", &ControllerSpec::floor)
      .def_rw("fit_every", &ControllerSpec::fit_every)
      .def_rw("fit_after", &ControllerSpec::fit_after)
      .def_rw("rule_version", &ControllerSpec::rule_version);
  nb::class_<Mixture>(m, "Mixture", "How much of each source a step asks for.")
      .def(nb::init<>())
      .def_rw("unit", &Mixture::unit)
      .def_rw("quota", &Mixture::quota)
      .def_rw("stages", &Mixture::stages)
      .def_rw("version", &Mixture::version)
      .def_rw("grain", &Mixture::grain)
      .def_rw("epoch_steps", &Mixture::epoch_steps)
      .def_rw("epoch_source", &Mixture::epoch_source)
      .def_rw("max_passes", &Mixture::max_passes)
      .def_rw("controller", &Mixture::controller);
  nb::class_<PackingSpec>(m, "PackingSpec", "How documents fill the bins of a step.")
      .def(nb::init<>())
      .def_rw("method", &PackingSpec::method)
      .def_rw("slack_permille", &PackingSpec::slack_permille)
      .def_rw("max_delay_steps", &PackingSpec::max_delay_steps);
  nb::class_<WindowSpec>(m, "WindowSpec", "Steps whose bins are dealt anew among each other.")
      .def(nb::init<>())
      .def_rw("steps", &WindowSpec::steps)
      .def_rw("max_delay", &WindowSpec::max_delay)
      .def_rw("width", &WindowSpec::width)
      .def(
          "set_cost",
          [](WindowSpec& window, const nb::dict& data) { window.cost = cost_model_of(data); },
          nb::arg("model"));
  nb::class_<JobSpec>(m, "JobSpec", "Everything that decides what a step holds.")
      .def(nb::init<>())
      .def_rw("name", &JobSpec::name)
      .def_rw("stream", &JobSpec::stream)
      .def_rw("seed", &JobSpec::seed)
      .def_rw("context", &JobSpec::context)
      .def_rw("bins", &JobSpec::bins)
      .def_rw("substeps", &JobSpec::substeps)
      .def_rw("align", &JobSpec::align)
      .def_rw("pad_token", &JobSpec::pad_token)
      .def_rw("max_steps", &JobSpec::max_steps)
      .def_rw("leftover", &JobSpec::leftover)
      .def_rw("packing", &JobSpec::packing)
      .def_rw("window", &JobSpec::window)
      .def_rw("mixture", &JobSpec::mixture)
      .def_rw("strategy", &JobSpec::strategy)
      .def_rw("sources", &JobSpec::sources)
      .def_rw("columns", &JobSpec::columns)
      .def_rw("batch_transform", &JobSpec::batch_transform);
}

void bind_options(nb::module_& m) {
  using namespace model;
  nb::class_<RuntimeOptions>(m, "RuntimeOptions", "Sizes and limits; they never change the stream.")
      .def(nb::init<>())
      .def_rw("threads", &RuntimeOptions::threads)
      .def_rw("io_threads", &RuntimeOptions::io_threads)
      .def_rw("prefetch_steps", &RuntimeOptions::prefetch_steps)
      .def_rw("runway", &RuntimeOptions::runway)
      .def_rw("payload_budget_bytes", &RuntimeOptions::payload_budget_bytes)
      .def_rw("constructor_budget_bytes", &RuntimeOptions::constructor_budget_bytes)
      .def_rw("private_copy_limit_bytes", &RuntimeOptions::private_copy_limit_bytes)
      .def_rw("open_files", &RuntimeOptions::open_files)
      .def_rw("tokenizer_processes", &RuntimeOptions::tokenizer_processes)
      .def_rw("alarm_ms", &RuntimeOptions::alarm_ms)
      .def_rw("hash_batches", &RuntimeOptions::hash_batches)
      .def_rw("reporters", &RuntimeOptions::reporters);
  nb::class_<DeliverySpec>(m, "DeliverySpec", "Places and shapes of what the trainer receives.")
      .def(nb::init<>())
      .def_rw("microbatch_size", &DeliverySpec::microbatch_size)
      .def_rw("fill_empty", &DeliverySpec::fill_empty)
      .def_rw("slicing", &DeliverySpec::slicing)
      .def_rw("token_type", &DeliverySpec::token_type)
      .def_rw("weight_type", &DeliverySpec::weight_type)
      .def_rw("all_stages", &DeliverySpec::all_stages)
      .def_rw("broadcast_axes", &DeliverySpec::broadcast_axes);
}

model::Mesh make_mesh(const std::vector<std::pair<std::string, uint32_t>>& axes) {
  std::vector<model::Axis> out;
  for (const auto& [name, size] : axes) out.push_back({name, size});
  return unwrap(model::Mesh::make(std::move(out)));
}

void bind_mesh(nb::module_& m) {
  using model::Mesh;
  nb::class_<Mesh>(m, "Mesh", "The trainer's ranks as named axes, slowest first.")
      .def(
          "__init__",
          [](Mesh* self, const std::vector<std::pair<std::string, uint32_t>>& axes) {
            new (self) Mesh(make_mesh(axes));
          },
          nb::arg("axes"))
      .def_prop_ro("world_size", &Mesh::world_size)
      .def_prop_ro("axes",
                   [](const Mesh& mesh) {
                     std::vector<std::pair<std::string, uint32_t>> axes;
                     for (const model::Axis& axis : mesh.axes()) {
                       axes.emplace_back(axis.name, axis.size);
                     }
                     return axes;
                   })
      .def(
          "size", [](const Mesh& mesh, const std::string& axis) { return mesh.size(axis); },
          nb::arg("axis"))
      .def(
          "coordinate",
          [](const Mesh& mesh, Rank rank, const std::string& axis) {
            if (rank >= mesh.world_size()) {
              raise(invalid_argument("rank " + std::to_string(rank) + " is outside the mesh " +
                                     mesh.text()));
            }
            return mesh.coordinate(rank, axis);
          },
          nb::arg("rank"), nb::arg("axis"))
      .def("text", &Mesh::text);
}

}  // namespace

void bind_spec(nb::module_& m) {
  bind_enums(m);
  bind_delivery_enums(m);
  bind_source(m);
  bind_job_spec(m);
  bind_options(m);
  bind_mesh(m);
  m.attr("WEIGHT_ONE") = model::kWeightOne;
}

}  // namespace overlord::python
