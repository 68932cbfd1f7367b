#include "native/model/block.h"

#include "native/core/cancel.h"

namespace aegir::model {

Block::Block(const InitContext& context, const StageConfig& stage, const BlockSpec& spec,
             LayerPosition position) {
  norm1_ = register_module("norm1", std::make_shared<Norm>(context, stage.dModel));
  timeMix_ = register_module("timeMix", std::make_shared<TimeMix>(context, stage, position));
  norm2_ = register_module("norm2", std::make_shared<Norm>(context, stage.dModel));
  if (spec.swiGlu) {
    feedForward_ = register_module<FeedForward>(
        "swiGlu", std::make_shared<SwiGlu>(context, stage.dModel, spec.dIntermediate, position));
  } else {
    feedForward_ = register_module<FeedForward>(
        "channelMix", std::make_shared<ChannelMix>(context, stage.dModel, spec.dIntermediate, position));
  }
}

at::Tensor Block::forward(const at::Tensor& h, at::Tensor& vFirst, const BlockState& before,
                          BlockState& after, const Sequences& sequences) {
  const auto mixed = timeMix_->forward(h, norm1_->forward(h), vFirst, before, after, sequences);
  return feedForward_->forward(mixed, norm2_->forward(mixed), before, after, sequences);
}

Isotropic::Isotropic(const InitContext& context, const StageConfig& stage,
                     const std::vector<BlockSpec>& specs) {
  const auto layers = static_cast<int64_t>(specs.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    const LayerPosition position{layer, layers};
    blocks_.push_back(register_module(std::to_string(layer),
                                      std::make_shared<Block>(context, stage, specs[layer], position)));
  }
  norm_ = register_module("norm", std::make_shared<Norm>(context, stage.dModel));
}

at::Tensor Isotropic::blocks(size_t from, size_t to, at::Tensor h, at::Tensor& vFirst,
                             const std::vector<BlockState>& before, std::vector<BlockState>& after,
                             const Sequences& sequences) {
  for (size_t layer = from; layer < to; ++layer) {
    throwIfCancelled();
    h = blocks_[layer]->forward(h, vFirst, before[layer], after[layer], sequences);
  }
  return h;
}

at::Tensor Isotropic::forward(const at::Tensor& h, const std::vector<BlockState>& before,
                              std::vector<BlockState>& after, const Sequences& sequences) {
  at::Tensor vFirst;
  return finish(blocks(0, size(), h, vFirst, before, after, sequences));
}

}  // namespace aegir::model
