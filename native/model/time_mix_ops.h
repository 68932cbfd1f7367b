// The elementwise pieces of RWKV-7's mixing layers (spec of each: the RWKV-7 paper, arXiv:2503.14456, section
// 4). x is packed: (K,D) with K tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

#include "native/model/sequences.h"

namespace aegir::model {

// x + (shift(x) - x) * mu_c for each row c of mu (C,D): C tensors (K,D).
std::vector<at::Tensor> tokenShiftMix(const at::Tensor& x, const at::Tensor& carried, const at::Tensor& mu,
                                      const Sequences& sequences);

// exp(-exp(-0.5) * sigmoid(z)), in (0.5452, 1).
at::Tensor decayFromLogits(const at::Tensor& z);

// value + (first - value) * sigmoid(z): later layers mix the first layer's values in.
at::Tensor valueResidual(const at::Tensor& value, const at::Tensor& first, const at::Tensor& z);

struct NormalisedKey {
  at::Tensor key;      // (K,D): k * (1 + (a - 1) * k_a)
  at::Tensor removal;  // (K,D): -kk, kk = k * k_k normalised per head
  at::Tensor gated;    // (K,D): kk * a
};
// k (K,D), aLogits (K,D) before the sigmoid, kK and kA (D).
NormalisedKey keyNormalise(const at::Tensor& k, const at::Tensor& aLogits, const at::Tensor& kK,
                           const at::Tensor& kA, int64_t headSize);

struct GroupNormParameters {
  at::Tensor gain, bias;  // (D)
};
// (GroupNorm_H(o) + (sum_N(r * k * rK)) * v) * gate, with o, r, k, v, gate (K,D), rK (H,N), eps = N * 1e-5.
at::Tensor groupNormBonusGate(const at::Tensor& o, const at::Tensor& r, const at::Tensor& k,
                              const at::Tensor& v, const at::Tensor& rK, const at::Tensor& gate,
                              const GroupNormParameters& norm);

// relu(x)^2
at::Tensor squaredRelu(const at::Tensor& x);

}  // namespace aegir::model
