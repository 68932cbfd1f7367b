// RWKV-7 time mixing and channel mixing ("Goose", arXiv:2503.14456) and the SwiGLU that may take the latter's
// place. Inputs are packed: (K,D) for K tokens of S sequences (sequences.h).
#pragma once

#include <memory>

#include "native/model/layers.h"
#include "native/model/sequences.h"
#include "native/model/state.h"

namespace aegir::model {

class TimeMix : public torch::nn::Module {
 public:
  TimeMix(const InitContext& context, const StageConfig& stage, LayerPosition position);

  // residual + TimeMix(x). vFirst: the first layer's values (K,D), set by layer 0 of a stack and read by the
  // later ones. Reads attXPrev and attKv of `before` (zeros where undefined) and sets those of `after`.
  at::Tensor forward(const at::Tensor& residual, const at::Tensor& x, at::Tensor& vFirst,
                     const BlockState& before, BlockState& after, const Sequences& sequences);

 private:
  int64_t headSize_;
  bool firstLayer_;
  at::ScalarType products_;
  at::Tensor mu_, w0_, w1_, w2_, a0_, a1_, a2_, v0_, v1_, v2_, g1_, g2_, kK_, kA_, rK_;
  std::shared_ptr<Linear> receptance_, key_, value_, output_;
  std::shared_ptr<Norm> norm_;
};

// The feed-forward half of a block: RWKV-7's channel mix (code "w") or SwiGLU (code "W").
class FeedForward : public torch::nn::Module {
 public:
  // residual + FeedForward(x); the channel mix carries ffnXPrev.
  virtual at::Tensor forward(const at::Tensor& residual, const at::Tensor& x, const BlockState& before,
                             BlockState& after, const Sequences& sequences) = 0;
};

class ChannelMix : public FeedForward {
 public:
  ChannelMix(const InitContext& context, int64_t dModel, int64_t dIntermediate, LayerPosition position);
  at::Tensor forward(const at::Tensor& residual, const at::Tensor& x, const BlockState& before,
                     BlockState& after, const Sequences& sequences) override;

 private:
  at::ScalarType products_;
  at::Tensor mu_;  // (1,D)
  std::shared_ptr<Linear> key_, value_;
};

class SwiGlu : public FeedForward {
 public:
  SwiGlu(const InitContext& context, int64_t dModel, int64_t dIntermediate, LayerPosition position);
  at::Tensor forward(const at::Tensor& residual, const at::Tensor& x, const BlockState& before,
                     BlockState& after, const Sequences& sequences) override;

 private:
  at::ScalarType products_;
  std::shared_ptr<Linear> gate_, up_, down_;
};

}  // namespace aegir::model
