#include "native/model/init.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace aegir::model {

namespace {

const at::TensorOptions kDouble = at::TensorOptions().dtype(at::kDouble);

}  // namespace

at::Tensor constant(const InitContext& context, at::IntArrayRef sizes, double value) {
  return at::full(sizes, value, at::TensorOptions().dtype(context.dtype));
}

at::Tensor identity(const InitContext& context, int64_t size) {
  return at::eye(size, at::TensorOptions().dtype(context.dtype));
}

at::Tensor uniform(const InitContext& context, at::IntArrayRef sizes, double bound) {
  return at::rand(sizes, context.generator, kDouble).mul_(2 * bound).sub_(bound).to(context.dtype);
}

at::Tensor normal(const InitContext& context, at::IntArrayRef sizes, double std) {
  return at::randn(sizes, context.generator, kDouble).mul_(std).to(context.dtype);
}

at::Tensor orthogonal(const InitContext& context, int64_t rows, int64_t columns, double gain) {
  const bool tall = rows >= columns;
  const auto gaussian = at::randn({tall ? rows : columns, tall ? columns : rows}, context.generator, kDouble);
  const auto [q, r] = at::linalg_qr(gaussian);
  // With R's diagonal made positive, Q is uniform over orthonormal frames.
  const auto frame = q * at::sign(r.diagonal());
  const double scale =
      rows > columns ? gain * std::sqrt(static_cast<double>(rows) / static_cast<double>(columns)) : gain;
  return ((tall ? frame : frame.t()) * scale).to(context.dtype).contiguous();
}

at::Tensor outputProjection(const InitContext& context, at::IntArrayRef sizes, LayerPosition position) {
  if (context.scheme == InitScheme::Rwkv) return constant(context, sizes, 0);
  return normal(context, sizes, 0.02 / std::sqrt(2.0 * static_cast<double>(position.layers)));
}

TimeMixVectors timeMixVectors(const InitContext& context, int64_t dModel, int64_t headSize,
                              LayerPosition position) {
  const double depth = static_cast<double>(position.layers);
  const double p = position.layers > 1 ? static_cast<double>(position.layer) / (depth - 1) : 0;
  const double q = 1 - static_cast<double>(position.layer) / depth;
  const double width = static_cast<double>(dModel);
  const auto i = at::arange(dModel, kDouble);
  const auto c = i / width;
  const auto ramp = i / std::max(width - 1, 1.0);
  const auto lin = ramp - 0.5;
  const double middle = (static_cast<double>(headSize) - 1) / 2;
  const auto offset = (i.remainder(static_cast<double>(headSize)) - middle) / std::max(middle, 0.5);
  const auto zig = offset * offset.abs();
  const auto mix = [&](double exponent) { return 1 - at::pow(c, exponent * q); };

  TimeMixVectors v;
  v.mu = at::stack({mix(0.2), mix(0.9), mix(0.7), mix(0.7), mix(0.9), mix(0.2)}).to(context.dtype);
  v.w0 = (-6 + 6 * at::pow(ramp, 1 + std::pow(p, 0.3)) + 0.5 + 2.5 * zig).to(context.dtype);
  v.a0 = (-0.19 + 0.3 * zig + 0.4 * lin).to(context.dtype);
  v.v0 = (0.73 - 0.4 * lin).to(context.dtype);
  v.kK = (0.71 - 0.1 * lin).to(context.dtype);
  v.kA = constant(context, {dModel}, 1.02);
  v.rK = constant(context, {dModel / headSize, headSize}, -0.04);
  return v;
}

at::Tensor channelMixMu(const InitContext& context, int64_t dModel, LayerPosition position) {
  const double q = 1 - static_cast<double>(position.layer) / static_cast<double>(position.layers);
  const auto c = at::arange(dModel, kDouble) / static_cast<double>(dModel);
  return (1 - at::pow(c, std::pow(q, 4))).to(context.dtype);
}

}  // namespace aegir::model
