#include "native/model/sampling.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "native/core/cancel.h"

namespace aegir::model {
namespace {

// Uniform in [0, 1).
double drawUniform(at::Generator& generator) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  auto* source = at::check_generator<at::CPUGeneratorImpl>(generator);
  return static_cast<double>(source->random64() >> 11) * 0x1p-53;
}

// How many of the sorted weights are kept.
size_t keptCount(const std::vector<double>& weights, const Sampling& sampling) {
  size_t kept = weights.size();
  if (sampling.topK > 0) kept = std::min(kept, static_cast<size_t>(sampling.topK));
  if (sampling.topP >= 1) return kept;
  const auto end = weights.begin() + static_cast<std::ptrdiff_t>(kept);
  const double wanted = sampling.topP * std::accumulate(weights.begin(), end, 0.0);
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    sum += weights[i];
    if (sum >= wanted) return i + 1;
  }
  return kept;
}

}  // namespace

int64_t sampleToken(const at::Tensor& logits, const Sampling& sampling, at::Generator& generator) {
  const auto values = logits.to(at::kCPU, at::kDouble).contiguous();
  const double* logit = values.const_data_ptr<double>();
  const auto count = static_cast<size_t>(values.numel());
  if (sampling.temperature == 0) return std::max_element(logit, logit + count) - logit;

  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (sampling.topK > 0 || sampling.topP < 1) {
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return logit[a] > logit[b]; });
  }
  const double highest = *std::max_element(logit, logit + count);
  std::vector<double> weights(count);
  for (size_t i = 0; i < count; ++i)
    weights[i] = std::exp((logit[order[i]] - highest) / sampling.temperature);
  const size_t kept = keptCount(weights, sampling);
  const auto end = weights.begin() + static_cast<std::ptrdiff_t>(kept);
  double left = drawUniform(generator) * std::accumulate(weights.begin(), end, 0.0);
  size_t last = 0;
  for (size_t i = 0; i < kept; ++i) {
    if (weights[i] == 0) continue;
    last = i;
    left -= weights[i];
    if (left < 0) break;
  }
  return order[last];
}

Generated generate(CausalLM& model, const GenerateInput& input, AegirState& state, at::Generator generator) {
  Generated result{{}, false, input.logits};
  const auto role = input.role == 0 ? at::Tensor() : at::tensor(std::vector<int64_t>{input.role});
  for (int64_t i = 0; i < input.count; ++i) {
    throwIfCancelled();
    const int64_t id = sampleToken(result.logits, input.sampling, generator);
    if (std::find(input.stop.begin(), input.stop.end(), id) != input.stop.end()) {
      result.stopped = true;
      break;
    }
    result.ids.push_back(id);
    result.logits = model.advance({at::tensor(std::vector<int64_t>{id}), role}, state).squeeze(0);
  }
  return result;
}

}  // namespace aegir::model
