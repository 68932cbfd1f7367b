#include "native/model/block.h"

#include <c10/core/GradMode.h>

#include <numeric>

#include "native/core/cancel.h"
#include "native/model/recompute.h"

namespace aegir::model {

Block::Block(const InitContext& context, const StageConfig& stage, const BlockSpec& spec,
             LayerPosition position)
    : reversed_(spec.reversed) {
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
  const auto turned = [&](const at::Tensor& x) {
    return reversed_ && x.defined() ? x.index_select(0, sequences.reversal()) : x;
  };
  const auto x = turned(h);
  const bool setsFirst = !vFirst.defined();
  auto first = turned(vFirst);
  const auto mixed = timeMix_->forward(x, norm1_->forward(x), first, before, after, sequences);
  if (setsFirst) vFirst = turned(first);
  return turned(feedForward_->forward(mixed, norm2_->forward(mixed), before, after, sequences));
}

Isotropic::Isotropic(const InitContext& context, const StageConfig& stage,
                     const std::vector<BlockSpec>& specs) {
  const auto layers = static_cast<int64_t>(specs.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    const LayerPosition position{layer, layers};
    blocks_.push_back(register_module(std::to_string(layer),
                                      std::make_shared<Block>(context, stage, specs[layer], position)));
    kept_.push_back(29 * stage.dModel + 2 * specs[layer].dIntermediate);
  }
  norm_ = register_module("norm", std::make_shared<Norm>(context, stage.dModel));
}

namespace {

// block->forward(…), recomputed in the backward pass.
at::Tensor recomputedBlock(const std::shared_ptr<Block>& block, const at::Tensor& h, at::Tensor& vFirst,
                           const BlockState& before, BlockState& after, const Sequences& sequences) {
  const bool setsFirst = !vFirst.defined();
  const auto part = [block, sequences, setsFirst](const std::vector<at::Tensor>& inputs) {
    at::Tensor first = inputs[1];
    BlockState state;
    const auto out = block->forward(inputs[0], first, {inputs[2], inputs[3], inputs[4]}, state, sequences);
    std::vector<at::Tensor> outputs{out, state.attXPrev, state.attKv};
    if (setsFirst) outputs.push_back(first);
    if (state.ffnXPrev.defined()) outputs.push_back(state.ffnXPrev);
    return outputs;
  };
  const auto outputs = recomputed(part, {h, vFirst, before.attXPrev, before.attKv, before.ffnXPrev});
  after.attXPrev = outputs[1];
  after.attKv = outputs[2];
  if (setsFirst) vFirst = outputs[3];
  const size_t others = setsFirst ? 4 : 3;
  after.ffnXPrev = outputs.size() > others ? outputs[others] : at::Tensor();
  return outputs[0];
}

}  // namespace

at::Tensor Isotropic::blocks(size_t from, size_t to, at::Tensor h, at::Tensor& vFirst,
                             const std::vector<BlockState>& before, std::vector<BlockState>& after,
                             const Sequences& sequences) {
  const int64_t kept = std::accumulate(kept_.begin(), kept_.end(), int64_t{0});
  const bool recompute = at::GradMode::is_enabled() && h.requires_grad() &&
                         RecomputeMode::recomputes(kept * h.size(0) * h.element_size(), h.device());
  for (size_t layer = from; layer < to; ++layer) {
    throwIfCancelled();
    h = recompute ? recomputedBlock(blocks_[layer], h, vFirst, before[layer], after[layer], sequences)
                  : blocks_[layer]->forward(h, vFirst, before[layer], after[layer], sequences);
  }
  return h;
}

at::Tensor Isotropic::forward(const at::Tensor& h, const std::vector<BlockState>& before,
                              std::vector<BlockState>& after, const Sequences& sequences) {
  at::Tensor vFirst;
  return finish(blocks(0, size(), h, vFirst, before, after, sequences));
}

}  // namespace aegir::model
