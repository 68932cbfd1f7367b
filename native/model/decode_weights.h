// The parameters of a causal language model in the order in which a decoding step reads them.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "native/model/config.h"

namespace aegir::model {

struct NormWeights {
  at::Tensor gain, bias;
};

// A low-rank map with its bias: base + f(x down) up.
struct LowRankWeights {
  at::Tensor base, down, up;  // base undefined: none
};

struct BlockWeights {
  NormWeights norm1, norm2, heads;
  at::Tensor mu, receptance, key, value, output, kK, kA, rK;
  LowRankWeights decay, a, gate, v;  // v undefined in the first layer of a stack
  // Channel mix: ffnMu, up and down; SwiGLU: ffnGate, up and down.
  at::Tensor ffnMu, ffnGate, up, down;
};

struct StackWeights {
  std::vector<BlockWeights> blocks;
  NormWeights norm;
};

struct StageWeights {
  StackWeights encoder, decoder;
  at::Tensor padding;               // undefined where the stage is as wide as the one around it
  at::Tensor query, key, residual;  // undefined in the innermost stage
};

struct DecodeWeights {
  at::Tensor byteEmbedding, roleEmbedding, ngramTable, ngramProjection, head;
  std::vector<StageWeights> stages;
};

// The parameters themselves, not copies: what an optimiser or loadStateDict writes is what is read next.
DecodeWeights decodeWeights(const torch::nn::Module& causalLM, const BackboneConfig& config);

}  // namespace aegir::model
