#include "overlord/plan/two_modules.h"

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
  for (const uint32_t sample : samples) busy[layer->encoder_of[sample]] = true;
  for (uint32_t encoder = 0; encoder < encoders; ++encoder) {
    if (!busy[encoder]) layer->dummies.push_back({encoder, microbatch});
  }
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
    BalanceProblem part;
    part.costs = costs;
    part.bins = problem.encoders;
    OVERLORD_TRY(const Balanced balanced,
                 balancer->run_in_groups(method, part, problem.group_size));
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

std::vector<Exchange> make_exchanges(const EncoderLayer& layer, const EncoderProblem& problem,
                                     std::span<const uint32_t> backbone_of,
                                     std::span<const int64_t> bytes) {
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
      exchange.pairs.push_back({layer.encoder_of[sample], backbone_of[sample], bytes[sample]});
    }
    std::sort(exchange.pairs.begin(), exchange.pairs.end(),
              [](const PairBytes& a, const PairBytes& b) {
                return a.encoder != b.encoder ? a.encoder < b.encoder : a.backbone < b.backbone;
              });
    std::vector<PairBytes> joined;
    for (const PairBytes& pair : exchange.pairs) {
      const bool same = !joined.empty() && joined.back().encoder == pair.encoder &&
                        joined.back().backbone == pair.backbone;
      if (same) {
        joined.back().bytes += pair.bytes;
      } else {
        joined.push_back(pair);
      }
    }
    exchange.pairs = std::move(joined);
  }
  return exchanges;
}

}  // namespace overlord::plan
