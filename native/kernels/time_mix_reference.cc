#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/square.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "native/kernels/sequence_layout.h"
#include "native/kernels/time_mix.h"

namespace aegir::kernels::reference {
namespace {

at::Tensor perHead(const at::Tensor& x, int64_t headSize) {
  return x.view({x.size(0), x.size(1) / headSize, headSize});
}

}  // namespace

std::vector<at::Tensor> tokenShiftMix(const TokenShiftMixInput& input) {
  const at::Tensor& x = input.x;
  const SequenceLayout layout = sequenceLayout(1, x.size(0), {}, input.cuSeqlens);
  std::vector<at::Tensor> shifted{x.narrow(0, 0, 0)};
  for (int64_t s = 0; s < layout.size(); ++s) {
    if (layout.length[s] == 0) continue;
    shifted.push_back(input.carried.defined() ? input.carried.narrow(0, s, 1)
                                              : at::zeros({1, x.size(1)}, x.options()));
    shifted.push_back(x.narrow(0, layout.start[s], layout.length[s] - 1));
  }
  const at::Tensor delta = at::cat(shifted) - x;
  std::vector<at::Tensor> mixed;
  for (const at::Tensor& row : input.mu.unbind(0)) mixed.push_back(at::addcmul(x, delta, row));
  return mixed;
}

at::Tensor decayFromLogits(const at::Tensor& z) { return at::exp(at::sigmoid(z) * -std::exp(-0.5)); }

at::Tensor valueResidual(const at::Tensor& value, const at::Tensor& first, const at::Tensor& z) {
  return at::lerp(value, first, at::sigmoid(z));
}

NormalisedKey keyNormalise(const KeyNormaliseInput& input) {
  const at::Tensor a = at::sigmoid(input.aLogits), scaled = perHead(input.k * input.kK, input.headSize);
  const at::Tensor norm =
      at::linalg_vector_norm(scaled, 2, at::IntArrayRef{-1}, /*keepdim=*/true).clamp_min(1e-12);
  const at::Tensor removal = (scaled / -norm).view_as(input.k);
  return {input.k * (1 + (a - 1) * input.kA), removal, -removal * a};
}

at::Tensor groupNormBonusGate(const GroupNormBonusGateInput& input) {
  const int64_t headSize = input.rK.size(1);
  const double eps = static_cast<double>(headSize) * 1e-5;
  const at::Tensor normalised =
      at::layer_norm(perHead(input.o, headSize), {headSize}, {}, {}, eps).view_as(input.o);
  const at::Tensor bonus = (perHead(input.r * input.k, headSize) * input.rK).sum(-1, /*keepdim=*/true);
  const at::Tensor values = (perHead(input.v, headSize) * bonus).view_as(input.v);
  return (at::addcmul(input.bias, normalised, input.gain) + values) * input.gate;
}

at::Tensor squaredRelu(const at::Tensor& x) { return at::square(at::relu(x)); }

}  // namespace aegir::kernels::reference
