#include "native/model/time_mix_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/square.h>

#include <cmath>

namespace aegir::model {

namespace {

at::Tensor perHead(const at::Tensor& x, int64_t headSize) {
  return x.view({x.size(0), x.size(1) / headSize, headSize});
}

}  // namespace

std::vector<at::Tensor> tokenShiftMix(const at::Tensor& x, const at::Tensor& carried, const at::Tensor& mu,
                                      const Sequences& sequences) {
  const auto delta = shiftTokens(x, carried, sequences) - x;
  std::vector<at::Tensor> mixed;
  for (const auto& row : mu.unbind(0)) mixed.push_back(at::addcmul(x, delta, row));
  return mixed;
}

at::Tensor decayFromLogits(const at::Tensor& z) { return at::exp(at::sigmoid(z) * -std::exp(-0.5)); }

at::Tensor valueResidual(const at::Tensor& value, const at::Tensor& first, const at::Tensor& z) {
  return at::lerp(value, first, at::sigmoid(z));
}

NormalisedKey keyNormalise(const at::Tensor& k, const at::Tensor& aLogits, const at::Tensor& kK,
                           const at::Tensor& kA, int64_t headSize) {
  const auto a = at::sigmoid(aLogits);
  const auto scaled = perHead(k * kK, headSize);
  const auto norm = at::linalg_vector_norm(scaled, 2, at::IntArrayRef{-1}, /*keepdim=*/true).clamp_min(1e-12);
  const auto removal = (scaled / -norm).view_as(k);
  // k (1 + (a - 1) kA) = k + k kA (a - 1)
  return {at::addcmul(k, k * kA, a - 1), removal, -removal * a};
}

at::Tensor groupNormBonusGate(const at::Tensor& o, const at::Tensor& r, const at::Tensor& k,
                              const at::Tensor& v, const at::Tensor& rK, const at::Tensor& gate,
                              const GroupNormParameters& norm) {
  const int64_t headSize = rK.size(1);
  const double eps = static_cast<double>(headSize) * 1e-5;
  const auto normalised = at::layer_norm(perHead(o, headSize), {headSize}, {}, {}, eps).view_as(o);
  const auto bonus = (perHead(r * k, headSize) * rK).sum(-1, /*keepdim=*/true);
  const auto values = (perHead(v, headSize) * bonus).view_as(v);
  return (at::addcmul(norm.bias, normalised, norm.gain) + values) * gate;
}

at::Tensor squaredRelu(const at::Tensor& x) { return at::square(at::relu(x)); }

}  // namespace aegir::model
