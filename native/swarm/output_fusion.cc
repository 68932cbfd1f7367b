#include "native/swarm/output_fusion.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>

#include <string>

#include "native/core/error.h"
#include "native/core/transfer.h"
#include "native/swarm/agents.h"

namespace aegir {

OutputFusionImpl::OutputFusionImpl(const OutputFusionConfig& config) : config_(config) {
  check(config.dModel > 0, ErrorCode::Config, "outputFusion: dModel must be positive, was ", config.dModel);
  for (size_t i = 0; i < config.specialists.size(); ++i) {
    const auto& s = config.specialists[i];
    check(s.dModel > 0 && s.numLabels > 0, ErrorCode::Config, "outputFusion: specialists[", i,
          "] needs positive dModel and numLabels, was ", s.dModel, " and ", s.numLabels);
    projections_.push_back(register_parameter(
        "projection" + std::to_string(i),
        at::zeros({config.dModel, s.dModel + s.numLabels}, at::TensorOptions().dtype(config.dtype))));
  }
}

at::Tensor OutputFusionImpl::forward(int64_t batch, const std::vector<AgentOutputs>& agents) {
  checkAgents("outputFusion", batch, static_cast<int64_t>(projections_.size()), agents);
  const auto device = projections_.empty() ? at::Device(at::kCPU) : projections_[0].device();
  auto residual = at::zeros({batch, config_.dModel}, at::TensorOptions().dtype(config_.dtype).device(device));
  for (const auto& agent : agents) {
    const auto& s = config_.specialists[agent.agent];
    const int64_t rows = agent.rows.size(0);
    check(agent.pooled.sizes() == at::IntArrayRef({rows, s.dModel}) &&
              agent.logits.sizes() == at::IntArrayRef({rows, s.numLabels}),
          ErrorCode::Shape, "outputFusion: agent ", agent.agent, " expected pooled (", rows, ",", s.dModel,
          ") and logits (", rows, ",", s.numLabels, "), got ", agent.pooled.sizes(), " and ",
          agent.logits.sizes());
    const auto features = at::cat({queuedTo(agent.pooled, device).to(config_.dtype),
                                   queuedTo(agent.logits, device).to(config_.dtype).softmax(1)},
                                  1);
    residual.index_add_(0, queuedTo(agent.rows, device), at::linear(features, projections_[agent.agent]));
  }
  return residual;
}

}  // namespace aegir
