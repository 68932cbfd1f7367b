#include "native/swarm/output_fusion.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <string>

#include "native/core/error.h"
#include "native/core/transfer.h"
#include "native/swarm/agents.h"

namespace aegir {

namespace {

// -ln of the probability below which a label counts as not said at all.
const double kFloor = std::log(1e4);

// F J (C,Cs)
at::Tensor sameLabels(const OutputFusionConfig& config, const OutputFusionConfig::Specialist& specialist,
                      size_t index) {
  check(static_cast<int64_t>(specialist.labels.size()) == specialist.numLabels, ErrorCode::Config,
        "outputFusion: specialists[", index, "].labels: expected one for each of ", specialist.numLabels,
        " labels, got ", specialist.labels.size());
  auto map = at::zeros({config.numLabels, specialist.numLabels}, at::kDouble);
  for (int64_t own = 0; own < specialist.numLabels; ++own) {
    const int64_t label = specialist.labels[own];
    check(label >= -1 && label < config.numLabels, ErrorCode::Config, "outputFusion: specialists[", index,
          "].labels: expected -1..", config.numLabels - 1, ", got ", label);
    if (label >= 0) map[label][own] = kFloor;
  }
  return map.to(config.dtype);
}

}  // namespace

OutputFusionImpl::OutputFusionImpl(const OutputFusionConfig& config) : config_(config) {
  check(config.dModel > 0, ErrorCode::Config, "outputFusion: dModel must be positive, was ", config.dModel);
  for (size_t i = 0; i < config.specialists.size(); ++i) {
    const auto& s = config.specialists[i];
    check(s.dModel > 0 && s.numLabels > 0, ErrorCode::Config, "outputFusion: specialists[", i,
          "] needs positive dModel and numLabels, was ", s.dModel, " and ", s.numLabels);
    projections_.push_back(register_parameter(
        "projection" + std::to_string(i),
        at::zeros({config.dModel, s.dModel + s.numLabels}, at::TensorOptions().dtype(config.dtype))));
    auto& map = labelMaps_.emplace_back();
    if (s.labels.empty()) continue;
    const auto same = sameLabels(config, s, i);
    const auto number = std::to_string(i);
    const bool pooled = s.weight > 0;
    if (pooled && !ownWeight_.defined())
      ownWeight_ = register_parameter("ownWeight", at::full({1}, config.ownWeight, same.options()));
    map = LabelMap{same, register_parameter("labelWeight" + number, at::full({1}, s.weight, same.options())),
                   register_parameter("labels" + number, at::zeros_like(same)), pooled};
  }
}

OutputResiduals OutputFusionImpl::forward(int64_t batch, const std::vector<AgentOutputs>& agents) {
  checkAgents("outputFusion", batch, static_cast<int64_t>(projections_.size()), agents);
  const auto device = projections_.empty() ? at::Device(at::kCPU) : projections_[0].device();
  const auto options = at::TensorOptions().dtype(config_.dtype).device(device);
  OutputResiduals residual{at::zeros({batch, config_.dModel}, options), {}, {}};
  for (const auto& map : labelMaps_) {
    if (map && !residual.logits.defined()) residual.logits = at::zeros({batch, config_.numLabels}, options);
  }
  auto answered = at::zeros({batch, 1}, options);  // 1 where a member of the pool is active
  for (const auto& agent : agents) {
    const auto& s = config_.specialists[agent.agent];
    const int64_t count = agent.rows.size(0);
    check(agent.pooled.sizes() == at::IntArrayRef({count, s.dModel}) &&
              agent.logits.sizes() == at::IntArrayRef({count, s.numLabels}),
          ErrorCode::Shape, "outputFusion: agent ", agent.agent, " expected pooled (", count, ",", s.dModel,
          ") and logits (", count, ",", s.numLabels, "), got ", agent.pooled.sizes(), " and ",
          agent.logits.sizes());
    const auto rows = queuedTo(agent.rows, device);
    const auto logp = queuedTo(agent.logits, device).to(config_.dtype).log_softmax(1);
    const auto features = at::cat({queuedTo(agent.pooled, device).to(config_.dtype), logp.exp()}, 1);
    residual.embedding.index_add_(0, rows, at::linear(features, projections_[agent.agent]));
    auto& map = labelMaps_[agent.agent];
    if (!map) continue;
    if (map->same.device() != device) map->same = map->same.to(device);
    const auto matrix = map->same * map->weight + map->learned;
    residual.logits.index_add_(0, rows, at::linear(logp.clamp_min(-kFloor) / kFloor + 1, matrix));
    if (map->pooled) answered.index_fill_(0, rows, 1);
  }
  if (ownWeight_.defined()) residual.scale = 1 + answered * (ownWeight_ - 1);
  return residual;
}

}  // namespace aegir
