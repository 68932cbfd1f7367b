#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/square.h>
#include <ATen/ops/where.h>
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
  const int64_t tokens = x.size(0), sequences = sequenceCount(1, tokens, {}, input.cuSeqlens);
  const at::Tensor carried =
      input.carried.defined() ? input.carried : at::zeros({sequences, x.size(1)}, x.options());
  // Rows of the table [K tokens; S carried rows] that come before each token.
  const at::Tensor bounds = input.cuSeqlens.to(x.device()), token = at::arange(tokens, bounds.options());
  const at::Tensor sequence =
      at::bucketize(token, bounds.narrow(0, 1, sequences), /*out_int32=*/false, /*right=*/true);
  const at::Tensor previous =
      at::where(token == bounds.index_select(0, sequence), sequence + tokens, token - 1);
  const at::Tensor shifted = at::cat({x, carried}).index_select(0, previous);
  const at::Tensor delta = shifted - x;
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
