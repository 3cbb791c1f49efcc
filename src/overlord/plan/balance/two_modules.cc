#include "overlord/plan/balance/two_modules.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

// Samples with something to encode, by microbatch, ascending.
std::vector<std::vector<uint32_t>> by_microbatch(const EncoderProblem& problem) {
  std::vector<std::vector<uint32_t>> samples(problem.microbatches);
  for (uint32_t i = 0; i < problem.costs.size(); ++i) {
    if (problem.costs[i] > 0) samples[problem.microbatch_of[i]].push_back(i);
  }
  return samples;
}

Status check(const EncoderProblem& problem) {
  if (problem.costs.size() != problem.microbatch_of.size()) {
    return invalid_argument("encoder: one microbatch per sample is needed");
  }
  if (problem.encoders == 0) return invalid_argument("encoder: needs at least one consumer");
  for (size_t i = 0; i < problem.costs.size(); ++i) {
    if (problem.microbatch_of[i] >= problem.microbatches) {
      return invalid_argument("encoder: sample " + std::to_string(i) + " is in microbatch " +
                              std::to_string(problem.microbatch_of[i]) + " of " +
                              std::to_string(problem.microbatches));
    }
  }
  return {};
}

void add_dummies(uint32_t microbatch, const std::vector<uint32_t>& samples, uint32_t encoders,
                 EncoderLayer* layer) {
  if (samples.empty()) return;
  std::vector<bool> busy(encoders, false);
  for (const uint32_t sample : samples) {
    OVERLORD_CHECK(layer->encoder_of[sample] < encoders, "every sample has an encoder");
    busy[layer->encoder_of[sample]] = true;
  }
  for (uint32_t encoder = 0; encoder < encoders; ++encoder) {
    if (!busy[encoder]) layer->dummies.push_back({encoder, microbatch});
  }
}

// `sent` is sorted by encoder.
std::vector<PairBytes> pairs_of(std::span<const uint32_t> sent,
                                std::span<const uint32_t> encoder_of,
                                std::span<const uint32_t> backbone_of,
                                std::span<const int64_t> bytes) {
  std::vector<PairBytes> pairs;
  size_t first = 0;  // pair of the encoder in hand
  for (const uint32_t sample : sent) {
    if (first < pairs.size() && pairs[first].encoder != encoder_of[sample]) first = pairs.size();
    const auto at = std::lower_bound(
        pairs.begin() + static_cast<ptrdiff_t>(first), pairs.end(), backbone_of[sample],
        [](const PairBytes& pair, uint32_t backbone) { return pair.backbone < backbone; });
    if (at != pairs.end() && at->backbone == backbone_of[sample]) {
      at->bytes += bytes[sample];
    } else {
      pairs.insert(at, {encoder_of[sample], backbone_of[sample], bytes[sample]});
    }
  }
  return pairs;
}

// Where there is an encoder for every sample nothing is to be balanced, and most work of large
// meshes would be that of looking at idle encoders.
bool has_room(const EncoderProblem& problem, size_t samples) {
  return samples <= problem.encoders &&
         (problem.group_size == 0 || problem.group_size >= problem.encoders);
}

Balanced one_each(std::span<const int64_t> costs) {
  Balanced out;
  out.bin_of.resize(costs.size());
  std::iota(out.bin_of.begin(), out.bin_of.end(), 0);
  for (const int64_t cost : costs) out.max_load = std::max(out.max_load, cost);
  out.lower_bound = out.max_load;
  out.bound_by = LoadLimit::kLargest;
  return out;
}

Result<Balanced> balance(model::BalanceMethod method, const EncoderProblem& problem,
                         std::span<const int64_t> costs, Balancer* balancer) {
  if (has_room(problem, costs.size())) return one_each(costs);
  BalanceProblem part;
  part.costs = costs;
  part.bins = problem.encoders;
  return balancer->run_in_groups(method, part, problem.group_size);
}

}  // namespace

Result<EncoderLayer> place_encoder(model::BalanceMethod method, const EncoderProblem& problem,
                                   Balancer* balancer) {
  OVERLORD_RETURN_IF_ERROR(check(problem));
  EncoderLayer layer;
  layer.encoder_of.assign(problem.costs.size(), kNoOwner);
  layer.loads.assign(problem.encoders, 0);
  const auto samples = by_microbatch(problem);
  for (uint32_t microbatch = 0; microbatch < problem.microbatches; ++microbatch) {
    std::vector<int64_t> costs;
    for (const uint32_t sample : samples[microbatch]) costs.push_back(problem.costs[sample]);
    OVERLORD_TRY(const Balanced balanced, balance(method, problem, costs, balancer));
    OVERLORD_CHECK(balanced.left.empty() && balanced.bin_of.size() == costs.size(),
                   "every sample has an encoder");
    for (size_t i = 0; i < costs.size(); ++i) {
      layer.encoder_of[samples[microbatch][i]] = balanced.bin_of[i];
      layer.loads[balanced.bin_of[i]] += costs[i];
    }
    layer.microbatches.push_back({balanced.max_load, balanced.lower_bound, balanced.bound_by});
    layer.slowest_sum += balanced.max_load;
    layer.lower_bound += balanced.lower_bound;
    if (problem.parity) add_dummies(microbatch, samples[microbatch], problem.encoders, &layer);
  }
  return layer;
}

int64_t slowest_in_turn(const EncoderProblem& problem) {
  int64_t sum = 0;
  for (const std::vector<uint32_t>& samples : by_microbatch(problem)) {
    std::vector<int64_t> loads(std::min<size_t>(samples.size(), problem.encoders), 0);
    for (size_t i = 0; i < samples.size(); ++i) {
      loads[i % loads.size()] += problem.costs[samples[i]];
    }
    if (!loads.empty()) sum += *std::max_element(loads.begin(), loads.end());
  }
  return sum;
}

std::vector<Exchange> make_exchanges(const EncoderLayer& layer, const EncoderProblem& problem,
                                     std::span<const uint32_t> backbone_of,
                                     std::span<const int64_t> bytes) {
  OVERLORD_CHECK(backbone_of.size() == problem.costs.size() && bytes.size() == problem.costs.size(),
                 "every sample goes to a backbone");
  std::vector<Exchange> exchanges(problem.microbatches);
  const auto samples = by_microbatch(problem);
  std::vector<uint32_t> place(problem.costs.size(), 0);
  for (uint32_t microbatch = 0; microbatch < problem.microbatches; ++microbatch) {
    Exchange& exchange = exchanges[microbatch];
    exchange.sent = exchange.received = samples[microbatch];
    const auto by_owner = [](std::span<const uint32_t> owner, std::vector<uint32_t>* rows) {
      std::stable_sort(rows->begin(), rows->end(),
                       [&](uint32_t a, uint32_t b) { return owner[a] < owner[b]; });
    };
    by_owner(layer.encoder_of, &exchange.sent);
    by_owner(backbone_of, &exchange.received);
    for (uint32_t i = 0; i < exchange.received.size(); ++i) place[exchange.received[i]] = i;
    exchange.permutation.resize(exchange.sent.size());
    exchange.inverse.resize(exchange.sent.size());
    for (uint32_t i = 0; i < exchange.sent.size(); ++i) {
      const uint32_t sample = exchange.sent[i];
      exchange.permutation[i] = place[sample];
      exchange.inverse[place[sample]] = i;
    }
    exchange.pairs = pairs_of(exchange.sent, layer.encoder_of, backbone_of, bytes);
    int64_t moved = 0;
    for (const uint32_t sample : exchange.sent) moved += bytes[sample];
    for (const PairBytes& pair : exchange.pairs) moved -= pair.bytes;
    OVERLORD_CHECK(moved == 0, "pairs move what is sent");
  }
  return exchanges;
}

}  // namespace overlord::plan
