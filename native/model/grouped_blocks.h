// The blocks of several flat models of one geometry as one stack: weights (G, …), the tokens of all models
// one after another, one grouped product for each product of a block and one call of each kernel over the
// sequences of all. The equations are those of rwkv7.cc. Frozen weights only: they are copied once, and there
// is no autograd.
#pragma once

#include <memory>
#include <vector>

#include "native/kernels/grouped.h"
#include "native/model/heads.h"

namespace aegir::model {

// Whether a model's blocks can be stacked: a flat layout without reversed blocks whose products are of the
// parameters' own type.
bool canGroupBlocks(const BackboneConfig& config);

class GroupedBlocks {
 public:
  // Throws ERR_CONFIG where the models differ in geometry or cannot be stacked.
  explicit GroupedBlocks(const std::vector<std::shared_ptr<Model>>& models);

  struct Output {
    at::Tensor hidden;              // (K,D), before the stack's last norm
    std::vector<at::Tensor> attKv;  // (S,H,N,N) a layer
  };
  // h (K,D): the embedded tokens of all groups.
  Output forward(at::Tensor h, const kernels::Groups& groups) const;

  // The copies of the weights.
  std::vector<at::Tensor> tensors() const;

 private:
  struct Norms {
    at::Tensor gain, bias;  // (G,D)
  };
  struct TimeMixWeights {
    at::Tensor mu;          // (G,6,D)
    at::Tensor w0, a0, v0;  // (G,D); v0 undefined in the first layer
    at::Tensor kK, kA, rK;  // (G,D), (G,H,N)
    kernels::StackedWeight w1, w2, a1, a2, v1, v2, g1, g2, receptance, key, value, output;
    Norms norm;
  };
  struct FeedForwardWeights {
    at::Tensor mu;  // (G,1,D); undefined: SwiGLU
    kernels::StackedWeight key, value, gate, up, down;
  };
  struct BlockWeights {
    Norms norm1, norm2;
    TimeMixWeights timeMix;
    FeedForwardWeights feedForward;
  };
  class Stacker;

  at::Tensor timeMix(const TimeMixWeights& weights, const at::Tensor& residual, const at::Tensor& x,
                     at::Tensor& vFirst, at::Tensor& attKv, const kernels::Groups& groups) const;
  at::Tensor feedForward(const FeedForwardWeights& weights, const at::Tensor& residual, const at::Tensor& x,
                         const kernels::Groups& groups) const;

  int64_t headSize_;
  std::vector<BlockWeights> blocks_;
  std::vector<at::Tensor> copies_;
};

}  // namespace aegir::model
