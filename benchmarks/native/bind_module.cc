// overlord_bench._bench_core: what only benchmarks call of the engine. Types of overlord._core are
// taken and given, so that module comes first.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bound.h"
#include "measure_pictures.h"
#include "overlord/plan/pipeline/pipeline_order.h"
#include "overlord/runtime/steady_clock.h"
#include "pack_stream.h"

namespace nb = nanobind;

namespace overlord::bench {
namespace {

using Costs = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig>;
using Orders = nb::ndarray<const uint32_t, nb::ndim<2>, nb::c_contig>;

nb::dict pack_stats(nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig> lengths,
                    uint32_t context, uint32_t bins, uint32_t slack_permille, uint32_t max_delay) {
  PackStats stats;
  const int64_t begin_ns = runtime::steady_now_ns();
  {
    nb::gil_scoped_release free;
    stats =
        pack_stream({lengths.data(), lengths.shape(0)}, context, bins, slack_permille, max_delay);
  }
  const int64_t elapsed_ns = runtime::steady_now_ns() - begin_ns;
  nb::dict out;
  out["fill"] = stats.fill_ppm / 1e6;
  out["docs"] = stats.documents;
  out["steps"] = stats.steps;
  out["max_delay"] = stats.max_delay;
  out["seconds"] = static_cast<double>(elapsed_ns) / 1e9;
  return out;
}

// (pictures a second, a checksum) of a bare native loop over files in memory.
std::tuple<double, uint64_t> pictures_per_second(const std::vector<nb::bytes>& files, int32_t side,
                                                 bool whole_chain, uint32_t threads,
                                                 double seconds) {
  std::vector<std::string> held;
  for (const nb::bytes& file : files) held.emplace_back(file.c_str(), file.size());
  const auto loop = whole_chain ? PictureLoop::kChain : PictureLoop::kPlain;
  const nb::gil_scoped_release free;
  const PictureFigures figures = unwrap(measure_pictures(held, side, loop, threads, seconds));
  return {static_cast<double>(figures.pictures) / figures.seconds, figures.checksum};
}

std::vector<int64_t> pipeline_makespan(Costs costs, uint32_t stages, Orders orders,
                                       uint32_t virtual_stages, int64_t backward_permille) {
  if (orders.shape(1) != costs.shape(0)) {
    throw nb::value_error(("orders: a row per order, a column per microbatch: has " +
                           std::to_string(orders.shape(1)) + " columns for " +
                           std::to_string(costs.shape(0)))
                              .c_str());
  }
  auto spans = [&] {
    nb::gil_scoped_release free;
    return plan::makespans({stages, virtual_stages, backward_permille},
                           {costs.data(), costs.shape(0)}, {orders.data(), orders.size()});
  }();
  return unwrap(std::move(spans));
}

}  // namespace
}  // namespace overlord::bench

NB_MODULE(_bench_core, m) {
  using namespace overlord::bench;
  m.doc() = "What only benchmarks call of Overlord's engine.";
  bind_planning(m);
  bind_publishing(m);
  bind_mixing(m);
  bind_baselines(m);
  m.def("pack_stats", &pack_stats, nb::arg("lengths"), nb::arg("context"), nb::arg("bins"),
        nb::arg("slack_permille"), nb::arg("max_delay"),
        "Pack a stream of document lengths with best_fit and report fill, steps and delay.");
  m.def(
      "pictures_per_second", &pictures_per_second, nb::arg("files"), nb::arg("side"),
      nb::arg("whole_chain"), nb::arg("threads"), nb::arg("seconds"),
      "(rate, checksum) of JPEGs to side x side RGB without a loader: libjpeg-turbo and a resize, "
      "or the chain of sources.");
  m.def("pipeline_makespan", &pipeline_makespan, nb::arg("costs"), nb::arg("stages"),
        nb::arg("orders"), nb::arg("virtual_stages") = 1, nb::arg("backward_permille") = 2000,
        "Makespan under 1F1B of each order, a row of `orders`.");
}
