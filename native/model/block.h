// Pre-norm residual blocks and the stack of them (H-Net's "isotropic" part).
#pragma once

#include <memory>
#include <vector>

#include "native/model/rwkv7.h"

namespace aegir::model {

// h = h + TimeMix(norm1(h)); h = h + FeedForward(norm2(h)); reversed: over each sequence from its end to its
// start, the state after it being that of the first token.
class Block : public torch::nn::Module {
 public:
  Block(const InitContext& context, const StageConfig& stage, const BlockSpec& spec, LayerPosition position);
  at::Tensor forward(const at::Tensor& h, at::Tensor& vFirst, const BlockState& before, BlockState& after,
                     const Sequences& sequences);

 private:
  bool reversed_;
  std::shared_ptr<Norm> norm1_, norm2_;
  std::shared_ptr<TimeMix> timeMix_;
  std::shared_ptr<FeedForward> feedForward_;
};

class Isotropic : public torch::nn::Module {
 public:
  Isotropic(const InitContext& context, const StageConfig& stage, const std::vector<BlockSpec>& specs);

  size_t size() const { return blocks_.size(); }
  // Blocks [from, to) over the residual stream h (K,D).
  at::Tensor blocks(size_t from, size_t to, at::Tensor h, at::Tensor& vFirst,
                    const std::vector<BlockState>& before, std::vector<BlockState>& after,
                    const Sequences& sequences);
  // Norm over the whole residual stream: the end of a stack keeps what came in.
  at::Tensor finish(const at::Tensor& h) const { return norm_->forward(h); }
  // Both.
  at::Tensor forward(const at::Tensor& h, const std::vector<BlockState>& before,
                     std::vector<BlockState>& after, const Sequences& sequences);

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<Norm> norm_;
  std::vector<int64_t> kept_;  // elements a token that each block keeps for the backward pass, about
};

}  // namespace aegir::model
