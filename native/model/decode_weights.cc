#include "native/model/decode_weights.h"

#include <string>

namespace aegir::model {
namespace {

using Parameters = torch::OrderedDict<std::string, at::Tensor>;

// Reads the parameters under a prefix.
class Named {
 public:
  Named(const Parameters& parameters, std::string prefix)
      : parameters_(parameters), prefix_(std::move(prefix)) {}

  Named in(const std::string& name) const { return {parameters_, prefix_ + name + "."}; }
  // Undefined where there is none of that name.
  at::Tensor operator[](const std::string& name) const {
    const at::Tensor* found = parameters_.find(prefix_ + name);
    return found != nullptr ? *found : at::Tensor();
  }
  NormWeights norm(const std::string& name) const { return {in(name)["gain"], in(name)["bias"]}; }
  at::Tensor linear(const std::string& name) const { return in(name)["weight"]; }
  LowRankWeights lowRank(const std::string& letter) const {
    const auto& self = *this;
    return {self[letter + "0"], self[letter + "1"], self[letter + "2"]};
  }

 private:
  const Parameters& parameters_;
  std::string prefix_;
};

BlockWeights blockWeights(const Named& block, const BlockSpec& spec) {
  const auto mix = block.in("timeMix");
  BlockWeights weights{block.norm("norm1"),
                       block.norm("norm2"),
                       mix.norm("norm"),
                       mix["mu"],
                       mix.linear("receptance"),
                       mix.linear("key"),
                       mix.linear("value"),
                       mix.linear("output"),
                       mix["kK"],
                       mix["kA"],
                       mix["rK"],
                       mix.lowRank("w"),
                       mix.lowRank("a"),
                       mix.lowRank("g"),
                       mix.lowRank("v"),
                       {},
                       {},
                       {},
                       {}};
  if (spec.swiGlu) {
    const auto feedForward = block.in("swiGlu");
    weights.ffnGate = feedForward.linear("gate");
    weights.up = feedForward.linear("up");
    weights.down = feedForward.linear("down");
  } else {
    const auto feedForward = block.in("channelMix");
    weights.ffnMu = feedForward["mu"];
    weights.up = feedForward.linear("key");
    weights.down = feedForward.linear("value");
  }
  return weights;
}

StackWeights stackWeights(const Named& stack, const std::vector<BlockSpec>& specs) {
  StackWeights weights;
  for (size_t layer = 0; layer < specs.size(); ++layer) {
    weights.blocks.push_back(blockWeights(stack.in(std::to_string(layer)), specs[layer]));
  }
  weights.norm = stack.norm("norm");
  return weights;
}

}  // namespace

DecodeWeights decodeWeights(const torch::nn::Module& causalLM, const BackboneConfig& config) {
  const auto parameters = causalLM.named_parameters();
  const Named model(parameters, ""), backbone = model.in("backbone");
  DecodeWeights weights;
  weights.byteEmbedding = backbone.linear("byteEmbedding");
  weights.roleEmbedding = backbone.linear("roleEmbedding");
  weights.ngramTable = backbone.linear("ngramEmbedding");
  weights.ngramProjection = backbone.in("ngramEmbedding").linear("projection");
  weights.head = model.linear("head");
  for (size_t i = 0; i < config.stages.size(); ++i) {
    const auto stage = backbone.in("stage" + std::to_string(i));
    weights.stages.push_back({stackWeights(stage.in("encoder"), config.stages[i].encoder),
                              stackWeights(stage.in("decoder"), config.stages[i].decoder), stage["padding"],
                              stage.in("routing")["query"], stage.in("routing")["key"], stage["residual"]});
  }
  return weights;
}

}  // namespace aegir::model
