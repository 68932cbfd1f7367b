#include "native/swarm/fusion.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "native/core/error.h"
#include "native/core/transfer.h"
#include "native/swarm/agents.h"

namespace aegir {

RWKVStateFusionImpl::RWKVStateFusionImpl(const FusionConfig& config, std::optional<at::Generator> generator)
    : config_(config) {
  const int64_t sets = config.layers, heads = config.numHeads, n = config.headSize,
                slots = config.numAgents + 1;
  check(heads > 0 && n > 0 && config.numAgents >= 0 && sets > 0, ErrorCode::Config, "stateFusion: numHeads ",
        heads, ", headSize ", n, " and layers ", sets, " must be positive, numAgents ", config.numAgents,
        " not negative");
  const auto options = at::TensorOptions().dtype(config.dtype);
  switch (config.mode) {
    case FusionMode::WeightedSum:
      // Queries of zero weigh all active states and the own one alike: training starts from their plain mean,
      // with no accidental preference. Keys of unit scale (std 1/N over N*N inputs) give the queries a
      // gradient from the first step; the primary's own zero state has key 0, so score 0, whatever was
      // learned.
      query_ = register_parameter("query", at::zeros({sets, heads, n}, options));
      keyProj_ = register_parameter(
          "keyProj",
          at::empty({sets, n, n * n}, options).normal_(0, 1.0 / static_cast<double>(n), generator));
      break;
    case FusionMode::Gated:
      gates_ = register_parameter("gates", at::zeros({sets, slots, heads}, options));
      break;
    case FusionMode::ConcatProject: {
      const int64_t weights = sets * slots * n * n * n * n;
      check(weights <= config.maxDenseWeights, ErrorCode::OutOfMemory,
            "stateFusion: mode 'concat_project' with ", config.numAgents, " agents and heads of ", n,
            " needs ", weights, " weights, more than maxDenseWeights = ", config.maxDenseWeights,
            ": use 'weighted_sum' or raise maxDenseWeights");
      // Own state plus the mean of the agents' slots.
      projection_ = register_parameter("projection", at::zeros({sets, slots, n * n, n * n}, options));
      projBias_ = register_parameter("projectionBias", at::zeros({sets, n * n}, options));
      c10::NoGradGuard noGrad;
      projection_.diagonal(0, 2, 3).fill_(1.0 / static_cast<double>(std::max<int64_t>(1, config.numAgents)));
      projection_.select(1, 0).diagonal(0, 1, 2).fill_(1.0);
      break;
    }
  }
}

at::Device RWKVStateFusionImpl::device() const {
  return query_.defined() ? query_.device() : gates_.defined() ? gates_.device() : projection_.device();
}

FusedStates RWKVStateFusionImpl::forward(int64_t layer, int64_t batch, const at::Tensor& givenOwn,
                                         const std::vector<AgentStates>& given) {
  checkInputs(layer, batch, givenOwn, given);
  const int64_t set = config_.layers == 1 ? 0 : layer;
  const at::Tensor own = queuedTo(givenOwn, device());
  std::vector<AgentStates> agents;
  for (const auto& agent : given)
    agents.push_back({agent.agent, queuedTo(agent.rows, device()), queuedTo(agent.states, device())});
  if (config_.mode == FusionMode::ConcatProject) {
    const auto active = queuedTo(activeRows(batch, given), device());
    return {concatProject(set, active, own, agents), {}};
  }

  const auto weights = scores(set, batch, own, agents).softmax(1);  // (B,1+n,H)
  auto fused = own.defined() ? own * weights.select(1, 0).unsqueeze(-1).unsqueeze(-1)
                             : at::zeros({batch, config_.numHeads, config_.headSize, config_.headSize},
                                         at::TensorOptions().dtype(config_.dtype).device(device()));
  for (const auto& agent : agents) {
    const auto weight = weights.select(1, agent.agent + 1).index_select(0, agent.rows);  // (b,H)
    fused.index_add_(0, agent.rows, agent.states * weight.unsqueeze(-1).unsqueeze(-1));
  }
  return {fused, weights};
}

// (B,1+n,H): -inf where an agent is not active; the own slot is always finite, so the softmax over slots is
// too.
at::Tensor RWKVStateFusionImpl::scores(int64_t set, int64_t batch, const at::Tensor& own,
                                       const std::vector<AgentStates>& agents) const {
  const auto options = at::TensorOptions().dtype(config_.dtype).device(device());
  const bool gated = config_.mode == FusionMode::Gated;
  // <keyProj flat(S), query> = <S, sum_i query_i keyProj_i>: one (N*N) vector a head in place of a key a
  // state.
  const auto probe = gated ? at::Tensor() : query_.select(0, set).matmul(keyProj_.select(0, set));  // (H,N*N)
  const auto score = [&](int64_t slot, int64_t rows, const at::Tensor& states) {
    if (gated) return gates_.select(0, set).select(0, slot).expand({rows, config_.numHeads});
    if (!states.defined()) return at::zeros({rows, config_.numHeads}, options);
    return at::einsum("bhx,hx->bh", {states.flatten(2), probe});
  };
  auto all = at::full({batch, config_.numAgents + 1, config_.numHeads},
                      -std::numeric_limits<double>::infinity(), options);
  all = all.index_copy(1, at::zeros({1}, options.dtype(at::kLong)), score(0, batch, own).unsqueeze(1));
  for (const auto& agent : agents) {
    // Flattened over (row, slot), so that one copy fills the slot of the active rows.
    const auto at = agent.rows * (config_.numAgents + 1) + (agent.agent + 1);
    all = all.flatten(0, 1)
              .index_copy(0, at, score(agent.agent + 1, agent.rows.size(0), agent.states))
              .view({batch, config_.numAgents + 1, config_.numHeads});
  }
  return all;
}

at::Tensor RWKVStateFusionImpl::concatProject(int64_t set, const at::Tensor& active, const at::Tensor& own,
                                              const std::vector<AgentStates>& agents) const {
  const int64_t batch = active.size(0);
  const auto options = at::TensorOptions().dtype(config_.dtype).device(device());
  const std::vector<int64_t> shape{batch, config_.numHeads, config_.headSize, config_.headSize};
  const auto kept = own.defined() ? own : at::zeros(shape, options);
  const auto project = [&](int64_t slot, const at::Tensor& states) {
    return at::linear(states.flatten(2), projection_.select(0, set).select(0, slot));  // (b,H,N*N)
  };
  // The product with the concatenated slots, slot by slot: inactive ones are zero and add nothing.
  auto sum = projBias_.select(0, set).expand({batch, config_.numHeads, config_.headSize * config_.headSize});
  if (own.defined()) sum = sum + project(0, own);
  for (const auto& agent : agents) sum = sum.index_add(0, agent.rows, project(agent.agent + 1, agent.states));
  return at::where(active.view({batch, 1, 1, 1}), sum.reshape(shape), kept);
}

void RWKVStateFusionImpl::checkInputs(int64_t layer, int64_t batch, const at::Tensor& own,
                                      const std::vector<AgentStates>& agents) const {
  const int64_t heads = config_.numHeads, n = config_.headSize;
  check(layer >= 0 && (config_.layers == 1 || layer < config_.layers), ErrorCode::Argument,
        "stateFusion: layer ", layer, " is outside the ", config_.layers, " layers that it was made for");
  const auto checkState = [&](const at::Tensor& states, int64_t rows, const char* name, int64_t agent) {
    check(states.sizes() == at::IntArrayRef({rows, heads, n, n}), ErrorCode::Shape, "stateFusion: ", name,
          agent < 0 ? "" : " ", agent < 0 ? std::string() : std::to_string(agent), " expected (", rows, ",",
          heads, ",", n, ",", n, "), got ", states.sizes(), "; an AlignmentProjection maps other geometries");
    check(states.scalar_type() == config_.dtype, ErrorCode::Dtype, "stateFusion: ", name, " states are ",
          states.scalar_type(), ", the parameters ", config_.dtype);
  };
  if (own.defined()) checkState(own, batch, "own", -1);
  checkAgents("stateFusion", batch, config_.numAgents, agents);
  for (const auto& agent : agents) checkState(agent.states, agent.rows.size(0), "agent", agent.agent);
}

}  // namespace aegir
