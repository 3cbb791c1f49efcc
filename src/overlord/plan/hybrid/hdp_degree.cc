// What a group costs, and how many ranks and how much offloading a sequence needs.
#include <algorithm>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"
#include "overlord/plan/hybrid/hdp.h"

namespace overlord::plan {
namespace {

constexpr int64_t kFsPerNs = 1'000'000;
constexpr int64_t kNsPerS = 1'000'000'000;
constexpr uint32_t kAll = 1000;  // permille

// Act(tokens) of one layer, in bytes.
Int128 activation_bytes(const HdpModel& model, uint32_t tokens) {
  return Int128{model.activation_token_bytes} * tokens + model.activation_fixed_bytes;
}

int64_t to_int64(Int128 value) {
  OVERLORD_CHECK(fits_int64(value), "a cost leaves 64 bits");
  return static_cast<int64_t>(value);
}

}  // namespace

// Times: least squares of the relative error of (tokens, sum of squares, 1) over packed batches of
// 2 K to 128 K tokens, forward plus backward of one bf16 layer on one H200 (46 and 39 batches; mean
// error 1.1 % and 1.0 %, worst 6.6 % and 3.8 %). The forward share is the least one measured.
// Bytes, from the shapes: a layer keeps sixteen times the hidden width and six times the
// feed-forward width per token in bf16 (gated; attention scores are not kept). Ring: keys and
// values once forward, twice backward. Links: PCIe 5 x16 to the host, 400 Gb/s between ranks.
std::optional<HdpModel> h200_model(std::string_view name) {
  HdpModel model;
  model.capacity = 8192;
  model.to_host_per_s = 50 * kNsPerS;
  model.from_host_per_s = 50 * kNsPerS;
  model.host_bytes = 200 * kNsPerS;
  model.ring_per_s = 50 * kNsPerS;
  model.ring_hop_ns = 10'000;
  if (name == "llama12b") {  // 45 layers, hidden 4608, 36 heads with keys of their own, ffn 12288
    model.square_fs = 98'648;
    model.token_fs = 2'562'861'000;
    model.fixed_fs = 59'270'000'000;
    model.forward_permille = 289;
    model.layers = 45;
    model.activation_token_bytes = 16 * 4608 + 6 * 12'288;
    model.ring_token_bytes = 3 * 2 * 2 * 4608;
    return model;
  }
  if (name == "mixtral8x7b") {  // 32 layers, hidden 4096, 8 kv heads of 128, two experts of 14336
    model.square_fs = 88'098;
    model.token_fs = 3'969'237'000;
    model.fixed_fs = 0;
    model.forward_permille = 285;
    model.layers = 32;
    model.activation_token_bytes = 16 * 4096 + 6 * 28'672;
    model.ring_token_bytes = 3 * 2 * 2 * 1024;
    return model;
  }
  // A 7B model as ByteScale (arXiv 2502.21231) published it: attention and feed-forward times of a
  // layer from its figure 6a, three times the forward; the link from its figure 18, where 97.6 % of
  // a step of 32 M tokens on 1,024 ranks with 256-way context parallelism is communication.
  if (name == "bytescale7b") {  // 32 layers, hidden 4096, 32 heads, ffn 11008
    model.square_fs = 33'000;
    model.token_fs = 660'000'000;
    model.fixed_fs = 0;
    model.forward_permille = 333;
    model.layers = 32;
    model.activation_token_bytes = 16 * 4096 + 6 * 11'008;
    model.ring_token_bytes = 3 * 2 * 2 * 4096;
    model.ring_per_s = 25 * kNsPerS;
    return model;
  }
  return std::nullopt;
}

HdpWork work_of(const HdpModel& model, uint64_t tokens, uint64_t squares) {
  HdpWork work;
  const Int128 layers = model.layers;
  work.attention_ns = to_int64(layers * model.square_fs * squares / kFsPerNs);
  work.linear_ns = to_int64(layers * model.token_fs * tokens / kFsPerNs);
  if (model.ring_per_s > 0) {
    work.ring_ns = to_int64(layers * model.ring_token_bytes * tokens * kNsPerS / model.ring_per_s);
  }
  return work;
}

int64_t duration_of(const HdpModel& model, const HdpWork& work, uint32_t ranks) {
  OVERLORD_CHECK(ranks > 0, "somebody does the work");
  const int64_t n = ranks;
  const auto share = [n](int64_t total) { return (total + n - 1) / n; };
  int64_t attention = share(work.attention_ns);
  if (n > 1) {
    const int64_t hops = model.layers * model.ring_hop_ns * (n - 1);
    attention = std::max(attention, share(work.ring_ns * (n - 1)) + hops);
  }
  const int64_t fixed = model.layers * model.fixed_fs / kFsPerNs;
  return std::max<int64_t>(1, fixed + share(work.linear_ns) + attention);
}

uint32_t offload_limit(const HdpModel& model, uint32_t length) {
  if (model.layers <= 2 || model.to_host_per_s <= 0 || model.from_host_per_s <= 0) return 0;
  const Int128 time_fs =
      Int128{model.square_fs} * length * length + Int128{model.token_fs} * length + model.fixed_fs;
  const Int128 bytes = std::max<Int128>(1, activation_bytes(model, length));
  // Bytes that the copy moves while the pass computes, over the bytes there are.
  const auto hidden = [&](uint32_t pass_permille, int64_t per_s) {
    const Int128 ns = time_fs * pass_permille / kAll / kFsPerNs;
    return ns * per_s / kNsPerS * kAll / bytes;
  };
  const Int128 out = hidden(model.forward_permille, model.to_host_per_s);
  const Int128 in = hidden(kAll - model.forward_permille, model.from_host_per_s);
  OVERLORD_CHECK(out >= 0 && in >= 0, "a share is not negative");
  return static_cast<uint32_t>(std::min({Int128{kAll}, out, in}));
}

std::optional<uint32_t> offload_needed(const HdpModel& model, uint32_t tokens, uint32_t limit) {
  if (tokens <= model.capacity) return 0;
  if (limit == 0 || model.layers <= 2) return std::nullopt;
  const Int128 layers = model.layers;
  const Int128 here = activation_bytes(model, tokens);
  const Int128 most = layers * activation_bytes(model, model.capacity);
  // Two layers stay on the device: one that computes, one that is copied.
  const Int128 movable = (layers - 2) * here;
  const Int128 permille = ceil_div(kAll * (layers * here - most), movable);
  OVERLORD_CHECK(permille > 0, "what does not fit is moved");
  if (permille > limit) return std::nullopt;
  if (model.host_bytes > 0 && ceil_div(permille * movable, kAll) > model.host_bytes) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(permille);
}

std::optional<uint32_t> least_ranks(const HdpProblem& problem, uint32_t length) {
  const HdpModel& model = problem.model;
  const uint32_t limit = problem.offload ? offload_limit(model, length) : 0;
  const auto fits = [&](uint32_t ranks) {
    return offload_needed(model, largest_share(length, ranks, problem.align), limit).has_value();
  };
  if (!fits(problem.ranks)) return std::nullopt;
  uint32_t too_few = 0;
  uint32_t enough = problem.ranks;
  while (enough - too_few > 1) {
    const uint32_t middle = too_few + (enough - too_few) / 2;
    (fits(middle) ? enough : too_few) = middle;
  }
  OVERLORD_CHECK(enough <= problem.ranks && fits(enough), "a sequence fits the ranks it needs");
  return enough;
}

}  // namespace overlord::plan
