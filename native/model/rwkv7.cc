#include "native/model/rwkv7.h"

#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include <cmath>

#include "native/kernels/matmul.h"
#include "native/kernels/time_mix.h"
#include "native/kernels/wkv7.h"

namespace aegir::model {

TimeMix::TimeMix(const InitContext& context, const StageConfig& stage, LayerPosition position)
    : headSize_(stage.headSize), firstLayer_(position.layer == 0), products_(context.products) {
  const int64_t d = stage.dModel;
  const auto& ranks = stage.ranks;
  const auto vectors = timeMixVectors(context, d, headSize_, position);
  mu_ = register_parameter("mu", vectors.mu);
  const auto lowRankMap = [&](const char* down, const char* up, int64_t rank, at::Tensor& downMap,
                              at::Tensor& upMap) {
    downMap = register_parameter(down, constant(context, {d, rank}, 0));
    upMap = register_parameter(up, orthogonal(context, rank, d, 0.1));
  };
  w0_ = register_parameter("w0", vectors.w0);
  lowRankMap("w1", "w2", ranks.decay, w1_, w2_);
  a0_ = register_parameter("a0", vectors.a0);
  lowRankMap("a1", "a2", ranks.a, a1_, a2_);
  if (!firstLayer_) {
    v0_ = register_parameter("v0", vectors.v0);
    lowRankMap("v1", "v2", ranks.v, v1_, v2_);
  }
  lowRankMap("g1", "g2", ranks.gate, g1_, g2_);
  kK_ = register_parameter("kK", vectors.kK);
  kA_ = register_parameter("kA", vectors.kA);
  rK_ = register_parameter("rK", vectors.rK);
  const double bound = 0.5 / std::sqrt(static_cast<double>(d));
  receptance_ = register_module("receptance", std::make_shared<Linear>(uniform(context, {d, d}, bound)));
  key_ = register_module("key", std::make_shared<Linear>(uniform(context, {d, d}, bound / 10)));
  value_ = register_module("value", std::make_shared<Linear>(uniform(context, {d, d}, bound)));
  output_ = register_module("output", std::make_shared<Linear>(outputProjection(context, {d, d}, position)));
  norm_ = register_module("norm", std::make_shared<Norm>(context, d));
}

at::Tensor TimeMix::forward(const at::Tensor& residual, const at::Tensor& x, at::Tensor& vFirst,
                            const BlockState& before, BlockState& after, const Sequences& sequences) {
  const int64_t d = x.size(1);
  const auto mixed = kernels::tokenShiftMix({x, before.attXPrev, mu_, sequences.cuSeqlens});
  const auto &xR = mixed[0], &xW = mixed[1], &xK = mixed[2], &xV = mixed[3], &xA = mixed[4], &xG = mixed[5];

  const auto product = [this](const at::Tensor& input, const at::Tensor& matrix,
                              const at::Tensor& addend = {}) {
    return multiplied(kernels::product, input, matrix, addend, products_);
  };
  const auto r = receptance_->forward(xR, products_);
  const auto k = key_->forward(xK, products_);
  auto v = value_->forward(xV, products_);
  const auto decay = kernels::decayFromLogits(product(at::tanh(product(xW, w1_)), w2_, w0_));
  const auto aLogits = product(product(xA, a1_), a2_, a0_);
  const auto gate = product(at::sigmoid(product(xG, g1_)), g2_);
  if (firstLayer_) {
    vFirst = v;
  } else {
    v = kernels::valueResidual(v, vFirst, product(product(xV, v1_), v2_, v0_));
  }
  const auto key = kernels::keyNormalise({k, aLogits, kK_, kA_, headSize_});

  // (K,D) -> (1,K,H,N): one packed row
  const auto heads = [&](const at::Tensor& t) { return t.view({1, x.size(0), d / headSize_, headSize_}); };
  const auto [o, state] = kernels::wkv7({heads(r), heads(decay), heads(key.key), heads(v), heads(key.removal),
                                         heads(key.gated), before.attKv, at::Tensor(), sequences.cuSeqlens});
  after.attXPrev = lastTokens(x, before.attXPrev, sequences);
  after.attKv = state;

  const auto gated = kernels::groupNormBonusGate(
      {o.view({x.size(0), d}), r, key.key, v, gate, rK_, norm_->gain(), norm_->bias()});
  return output_->addTo(residual, gated, products_);
}

ChannelMix::ChannelMix(const InitContext& context, int64_t dModel, int64_t dIntermediate,
                       LayerPosition position)
    : products_(context.products) {
  mu_ = register_parameter("mu", channelMixMu(context, dModel, position).unsqueeze(0));
  const double bound = 0.5 / std::sqrt(static_cast<double>(dModel));
  key_ = register_module("key", std::make_shared<Linear>(uniform(context, {dIntermediate, dModel}, bound)));
  value_ = register_module(
      "value", std::make_shared<Linear>(outputProjection(context, {dModel, dIntermediate}, position)));
}

at::Tensor ChannelMix::forward(const at::Tensor& residual, const at::Tensor& x, const BlockState& before,
                               BlockState& after, const Sequences& sequences) {
  const auto xK = kernels::tokenShiftMix({x, before.ffnXPrev, mu_, sequences.cuSeqlens})[0];
  after.ffnXPrev = lastTokens(x, before.ffnXPrev, sequences);
  return value_->addTo(residual, kernels::squaredRelu(key_->forward(xK, products_)), products_);
}

SwiGlu::SwiGlu(const InitContext& context, int64_t dModel, int64_t dIntermediate, LayerPosition position)
    : products_(context.products) {
  const double bound = 0.5 / std::sqrt(static_cast<double>(dModel));
  gate_ = register_module("gate", std::make_shared<Linear>(uniform(context, {dIntermediate, dModel}, bound)));
  up_ = register_module("up", std::make_shared<Linear>(uniform(context, {dIntermediate, dModel}, bound)));
  down_ = register_module(
      "down", std::make_shared<Linear>(outputProjection(context, {dModel, dIntermediate}, position)));
}

at::Tensor SwiGlu::forward(const at::Tensor& residual, const at::Tensor& x, const BlockState&, BlockState&,
                           const Sequences&) {
  return down_->addTo(residual, at::silu(gate_->forward(x, products_)) * up_->forward(x, products_),
                      products_);
}

}  // namespace aegir::model
