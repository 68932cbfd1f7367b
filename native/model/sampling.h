// Drawing tokens from a language model's logits.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "native/model/heads.h"

namespace aegir::model {

// The distribution softmax(logits / temperature), cut to the topK most probable tokens and then to the fewest
// whose probabilities reach topP together. Temperature 0: the most probable token.
struct Sampling {
  double temperature = 1;
  int64_t topK = 0;  // 0: all
  double topP = 1;
};

// A token by logits (V), f32 or f64 on the CPU; among equal logits the lower id comes first. One draw of the
// generator, none at temperature 0.
int64_t sampleToken(const at::Tensor& logits, const Sampling& sampling, at::Generator& generator);

struct GenerateInput {
  at::Tensor logits;  // (V) after the last token
  int64_t count = 0;  // tokens to draw
  Sampling sampling;
  std::vector<int64_t> stop;  // ids that end the sequence
  int64_t role = 0;
};

struct Generated {
  std::vector<int64_t> ids;  // `count`, or fewer up to a stop id, which is not among them
  bool stopped = false;
  at::Tensor logits;  // (V) after the last of ids
};

// Draws tokens one by one, each fed back to `model`; `state` (one sequence) is advanced as by
// CausalLM::advance. May be cancelled between two tokens.
Generated generate(CausalLM& model, const GenerateInput& input, AegirState& state, at::Generator generator);

}  // namespace aegir::model
