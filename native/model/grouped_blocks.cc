#include "native/model/grouped_blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>

#include <map>
#include <string>

#include "native/core/cancel.h"
#include "native/core/error.h"
#include "native/kernels/wkv7.h"

namespace aegir::model {

bool canGroupBlocks(const BackboneConfig& config) {
  return config.stages.size() == 1 && config.products == config.dtype && !config.readsAhead();
}

// Copies the weights of one name from all models.
class GroupedBlocks::Stacker {
 public:
  Stacker(const std::vector<std::shared_ptr<Model>>& models, std::vector<at::Tensor>& copies)
      : copies_(copies) {
    for (const auto& model : models) {
      auto& named = named_.emplace_back();
      for (const auto& item : model->named_parameters()) named.emplace(item.key(), item.value().detach());
    }
  }

  bool has(const std::string& name) const { return named_[0].count(name) > 0; }
  at::Tensor vectors(const std::string& name) { return keep(at::stack(all(name))); }
  Norms norms(const std::string& name) { return {vectors(name + ".gain"), vectors(name + ".bias")}; }
  kernels::StackedWeight matrix(const std::string& name) { return product(name, false); }
  kernels::StackedWeight linear(const std::string& name) { return product(name + ".weight", true); }

 private:
  std::vector<at::Tensor> all(const std::string& name) const {
    std::vector<at::Tensor> found;
    for (const auto& named : named_) {
      const auto parameter = named.find(name);
      check(parameter != named.end() &&
                (found.empty() || (found[0].sizes() == parameter->second.sizes() &&
                                   found[0].scalar_type() == parameter->second.scalar_type() &&
                                   found[0].device() == parameter->second.device())),
            ErrorCode::Config, "models to stack: '", name, "' is not of one shape, type and device in all");
      found.push_back(parameter->second);
    }
    return found;
  }
  kernels::StackedWeight product(const std::string& name, bool transposed) {
    kernels::StackedWeight weight(all(name), transposed);
    keep(weight.stack());
    return weight;
  }
  at::Tensor keep(const at::Tensor& copy) { return copies_.emplace_back(copy); }

  std::vector<std::map<std::string, at::Tensor>> named_;
  std::vector<at::Tensor>& copies_;
};

GroupedBlocks::GroupedBlocks(const std::vector<std::shared_ptr<Model>>& models) {
  check(!models.empty(), ErrorCode::Argument, "models to stack: expected at least one");
  const auto& stage = models[0]->config()->stages[0];
  headSize_ = stage.headSize;
  for (const auto& model : models) {
    const auto& config = *model->config();
    check(canGroupBlocks(config), ErrorCode::Config,
          "models to stack: expected flat layouts without another precision or reversed blocks");
    check(config.stages[0].headSize == headSize_ && config.stages[0].encoder.size() == stage.encoder.size(),
          ErrorCode::Config, "models to stack: head sizes or numbers of blocks differ");
  }
  Stacker stacker(models, copies_);
  for (size_t layer = 0; layer < stage.encoder.size(); ++layer) {
    const std::string block = "backbone.stage0.encoder." + std::to_string(layer) + ".";
    const std::string mix = block + "timeMix.";
    BlockWeights weights;
    weights.norm1 = stacker.norms(block + "norm1");
    weights.norm2 = stacker.norms(block + "norm2");
    auto& time = weights.timeMix;
    time.mu = stacker.vectors(mix + "mu");
    time.w0 = stacker.vectors(mix + "w0");
    time.a0 = stacker.vectors(mix + "a0");
    time.w1 = stacker.matrix(mix + "w1");
    time.w2 = stacker.matrix(mix + "w2");
    time.a1 = stacker.matrix(mix + "a1");
    time.a2 = stacker.matrix(mix + "a2");
    time.g1 = stacker.matrix(mix + "g1");
    time.g2 = stacker.matrix(mix + "g2");
    if (layer > 0) {
      time.v0 = stacker.vectors(mix + "v0");
      time.v1 = stacker.matrix(mix + "v1");
      time.v2 = stacker.matrix(mix + "v2");
    }
    time.kK = stacker.vectors(mix + "kK");
    time.kA = stacker.vectors(mix + "kA");
    time.rK = stacker.vectors(mix + "rK");
    time.receptance = stacker.linear(mix + "receptance");
    time.key = stacker.linear(mix + "key");
    time.value = stacker.linear(mix + "value");
    time.output = stacker.linear(mix + "output");
    time.norm = stacker.norms(mix + "norm");
    auto& forward = weights.feedForward;
    if (stage.encoder[layer].swiGlu) {
      forward.gate = stacker.linear(block + "swiGlu.gate");
      forward.up = stacker.linear(block + "swiGlu.up");
      forward.down = stacker.linear(block + "swiGlu.down");
    } else {
      forward.mu = stacker.vectors(block + "channelMix.mu");
      forward.key = stacker.linear(block + "channelMix.key");
      forward.value = stacker.linear(block + "channelMix.value");
    }
    blocks_.push_back(std::move(weights));
  }
}

std::vector<at::Tensor> GroupedBlocks::tensors() const { return copies_; }

GroupedBlocks::Output GroupedBlocks::forward(at::Tensor h, const kernels::Groups& groups) const {
  Output output;
  at::Tensor vFirst;
  for (const auto& block : blocks_) {
    throwIfCancelled();
    const auto x = kernels::groupedLayerNorm(h, block.norm1.gain, block.norm1.bias, groups);
    h = timeMix(block.timeMix, h, x, vFirst, output.attKv.emplace_back(), groups);
    h = feedForward(block.feedForward, h,
                    kernels::groupedLayerNorm(h, block.norm2.gain, block.norm2.bias, groups), groups);
  }
  output.hidden = h;
  return output;
}

at::Tensor GroupedBlocks::timeMix(const TimeMixWeights& weights, const at::Tensor& residual,
                                  const at::Tensor& x, at::Tensor& vFirst, at::Tensor& attKv,
                                  const kernels::Groups& groups) const {
  const int64_t rows = x.size(0), d = x.size(1);
  const auto mixed = kernels::groupedTokenShiftMix(x, weights.mu, groups);
  const auto &xR = mixed[0], &xW = mixed[1], &xK = mixed[2], &xV = mixed[3], &xA = mixed[4], &xG = mixed[5];

  const auto r = weights.receptance.product(xR, groups);
  const auto k = weights.key.product(xK, groups);
  auto v = weights.value.product(xV, groups);
  const auto decay = kernels::decayFromLogits(
      weights.w2.productWithBias(at::tanh(weights.w1.product(xW, groups)), groups, weights.w0));
  const auto aLogits = weights.a2.productWithBias(weights.a1.product(xA, groups), groups, weights.a0);
  const auto gate = weights.g2.product(at::sigmoid(weights.g1.product(xG, groups)), groups);
  if (!weights.v0.defined()) {
    vFirst = v;
  } else {
    const auto z = weights.v2.productWithBias(weights.v1.product(xV, groups), groups, weights.v0);
    v = kernels::valueResidual(v, vFirst, z);
  }
  const auto key = kernels::groupedKeyNormalise({k, aLogits, weights.kK, weights.kA, headSize_}, groups);

  // (K,D) -> (1,K,H,N): one packed row
  const auto heads = [&](const at::Tensor& t) { return t.view({1, rows, d / headSize_, headSize_}); };
  const auto [o, state] = kernels::wkv7({heads(r), heads(decay), heads(key.key), heads(v), heads(key.removal),
                                         heads(key.gated), at::Tensor(), at::Tensor(), groups.cuSeqlens});
  attKv = state;
  const auto gated = kernels::groupedGroupNormBonusGate(
      {o.view({rows, d}), r, key.key, v, gate, weights.rK, weights.norm.gain, weights.norm.bias}, groups);
  return weights.output.addTo(residual, gated, groups);
}

at::Tensor GroupedBlocks::feedForward(const FeedForwardWeights& weights, const at::Tensor& residual,
                                      const at::Tensor& x, const kernels::Groups& groups) const {
  if (!weights.mu.defined()) {
    const auto inner = at::silu(weights.gate.product(x, groups)) * weights.up.product(x, groups);
    return weights.down.addTo(residual, inner, groups);
  }
  const auto xK = kernels::groupedTokenShiftMix(x, weights.mu, groups)[0];
  return weights.value.addTo(residual, kernels::squaredRelu(weights.key.product(xK, groups)), groups);
}

}  // namespace aegir::model
