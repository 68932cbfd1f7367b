// The decoding step of a causal language model: one token for each of a few sequences through the whole model
// without an ATen operator or an autograd node in between, on kernels that read every weight once.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "native/model/decode_weights.h"
#include "native/model/state.h"

namespace aegir::model {

class Decoder {
 public:
  Decoder(const torch::nn::Module& causalLM, std::shared_ptr<const BackboneConfig> config);

  // Whether step() can go on from here: parameters and state lie on the CPU, every tensor of the state is
  // there (sequences have begun), heads are multiples of the vector width, and products are not in bf16. Else
  // the model's own forward serves.
  bool serves(const AegirState& state) const;

  // ids, roles: (B) i64 in range; roles undefined: role 0. The logits (B,V) after the token; `state` of the B
  // sequences is advanced in place, so its tensors must be contiguous and no one else's. Threads of the
  // caller share the rows of large matrices. Throws ERR_NON_FINITE where the logits are not finite.
  at::Tensor step(const at::Tensor& ids, const at::Tensor& roles, AegirState& state) const;

 private:
  std::shared_ptr<const BackboneConfig> config_;
  DecodeWeights weights_;
};

}  // namespace aegir::model
