// The elementwise pieces of RWKV-7's mixing layers ("Goose", arXiv:2503.14456, section 4), each one pass over
// its tensors in both directions. Tokens are packed: x is (K,D), the K tokens of S sequences one after
// another. f32 and f64 run the kernels where D (and the head size, for operators over heads) is a multiple of
// the vector width; everything else takes the reference. Differentiable once.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace aegir::kernels {

struct TokenShiftMixInput {
  at::Tensor x;          // (K,D)
  at::Tensor carried;    // (S,D), the row before each sequence's first; undefined: zeros
  at::Tensor mu;         // (C,D)
  at::Tensor cuSeqlens;  // (S+1) i64, non-decreasing from 0 to K
};
// x + (shift(x) - x) * mu_c for each row c of mu: C tensors (K,D).
std::vector<at::Tensor> tokenShiftMix(const TokenShiftMixInput& input);

// exp(-exp(-0.5) * sigmoid(z)), in (0.5452, 1); any shape.
at::Tensor decayFromLogits(const at::Tensor& z);

// value + (first - value) * sigmoid(z), one shape: later layers mix the first layer's values in.
at::Tensor valueResidual(const at::Tensor& value, const at::Tensor& first, const at::Tensor& z);

struct KeyNormaliseInput {
  at::Tensor k, aLogits;  // (K,D), a = sigmoid(aLogits)
  at::Tensor kK, kA;      // (D)
  int64_t headSize;
};
struct NormalisedKey {
  at::Tensor key;      // (K,D): k * (1 + (a - 1) * kA)
  at::Tensor removal;  // (K,D): -kk, kk = k * kK normalised per head
  at::Tensor gated;    // (K,D): kk * a
};
NormalisedKey keyNormalise(const KeyNormaliseInput& input);

struct GroupNormBonusGateInput {
  at::Tensor o, r, k, v, gate;  // (K,D)
  at::Tensor rK;                // (H,N)
  at::Tensor gain, bias;        // (D)
};
// (GroupNorm_H(o) * gain + bias + (sum_N(r * k * rK)) * v) * gate with eps = N * 1e-5: (K,D).
at::Tensor groupNormBonusGate(const GroupNormBonusGateInput& input);

// relu(x)^2, any shape.
at::Tensor squaredRelu(const at::Tensor& x);

// The same in plain ATen operators, differentiated by autograd: the oracle of tests.
namespace reference {
std::vector<at::Tensor> tokenShiftMix(const TokenShiftMixInput& input);
at::Tensor decayFromLogits(const at::Tensor& z);
at::Tensor valueResidual(const at::Tensor& value, const at::Tensor& first, const at::Tensor& z);
NormalisedKey keyNormalise(const KeyNormaliseInput& input);
at::Tensor groupNormBonusGate(const GroupNormBonusGateInput& input);
at::Tensor squaredRelu(const at::Tensor& x);
}  // namespace reference

}  // namespace aegir::kernels
