#include "native/swarm/alignment.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "native/core/error.h"
#include "native/core/transfer.h"
#include "native/swarm/ridge.h"

namespace aegir {
namespace {

void checkPositive(const StateGeometry& g, const char* name) {
  check(g.layers > 0 && g.heads > 0 && g.headSize > 0, ErrorCode::Config, "alignment.", name,
        ": layers, heads and head size must be positive, got ", g);
}

// Truncation to Np < Ns keeps (Np/Ns)^2 of the expected squared norm of S; this factor on each side restores
// it.
double keepNorm(int64_t to, int64_t from) {
  return to < from ? std::sqrt(static_cast<double>(from) / static_cast<double>(to)) : 1.0;
}

}  // namespace

AlignmentProjectionImpl::AlignmentProjectionImpl(const AlignmentConfig& config) : config_(config) {
  checkPositive(config.primary, "primary");
  checkPositive(config.specialist, "specialist");
  const auto options = at::TensorOptions().dtype(config.dtype);
  const bool sameHeads = config.primary.heads == config.specialist.heads;
  if (!sameHeads) {
    headMap_ = at::empty({config.primary.heads}, at::kLong);
    auto* map = headMap_.data_ptr<int64_t>();
    for (int64_t h = 0; h < config.primary.heads; ++h) map[h] = sourceHead(h);
  }
  switch (config.mode) {
    case AlignmentMode::Identity:
      check(sameHeads && config.primary.headSize == config.specialist.headSize, ErrorCode::Config,
            "alignment: mode 'identity' needs equal heads and head size; the primary has ", config.primary,
            ", the specialist ", config.specialist, ": use mode 'bilinear'");
      break;
    case AlignmentMode::Bilinear: registerBilinear(options); break;
    case AlignmentMode::Dense: registerDense(options); break;
  }
  if (config.vectors) registerVectors(options);
}

void AlignmentProjectionImpl::registerBilinear(const at::TensorOptions& options) {
  const auto& p = config_.primary;
  const auto& s = config_.specialist;
  // Starts as the (rectangular) identity, so an untrained alignment copies what fits.
  const auto start = at::eye(p.headSize, s.headSize, options).mul_(keepNorm(p.headSize, s.headSize));
  const auto stacked = start.expand({p.layers, p.heads, p.headSize, s.headSize});
  left_ = register_parameter("left", stacked.clone(at::MemoryFormat::Contiguous));
  right_ = register_parameter("right", stacked.clone(at::MemoryFormat::Contiguous));
}

void AlignmentProjectionImpl::registerDense(const at::TensorOptions& options) {
  const auto& p = config_.primary;
  const auto& s = config_.specialist;
  const double weights = static_cast<double>(p.layers) * p.stateSize() * s.stateSize();
  check(weights <= static_cast<double>(config_.maxDenseWeights), ErrorCode::OutOfMemory,
        "alignment: mode 'dense' from ", s, " to ", p, " needs ", static_cast<int64_t>(weights), " weights (",
        p.stateSize() * s.stateSize(), " a layer), more than maxDenseWeights = ", config_.maxDenseWeights,
        ": use mode 'bilinear' or raise maxDenseWeights");
  dense_ = register_parameter("dense", at::zeros({p.layers, p.stateSize(), s.stateSize()}, options));
  // The same start as the bilinear form: entry (h,i,j) copies entry (map(h),i,j).
  c10::NoGradGuard noGrad;
  const double scale = keepNorm(p.headSize, s.headSize);
  const int64_t shared = std::min(p.headSize, s.headSize);
  auto view = dense_.view({p.layers, p.heads, p.headSize, p.headSize, s.heads, s.headSize, s.headSize});
  for (int64_t h = 0; h < p.heads; ++h) {
    auto block = view.select(1, h).select(3, sourceHead(h));  // (Lp, Np, Np, Ns, Ns)
    block = block.slice(1, 0, shared).slice(2, 0, shared).slice(3, 0, shared).slice(4, 0, shared);
    block.diagonal(0, 1, 3).diagonal(0, 1, 2).fill_(scale * scale);
  }
}

void AlignmentProjectionImpl::registerVectors(const at::TensorOptions& options) {
  const int64_t count = 2 * config_.primary.layers;
  const int64_t to = config_.primary.width(), from = config_.specialist.width();
  const double scale = keepNorm(to, from);
  vectorMap_ = register_parameter(
      "vectorMap",
      at::eye(to, from, options).mul_(scale).expand({count, to, from}).clone(at::MemoryFormat::Contiguous));
  bias_ = register_parameter("vectorBias", at::zeros({count, to}, options));
}

int64_t AlignmentProjectionImpl::sourceLayer(int64_t layer) const {
  check(layer >= 0 && layer < config_.primary.layers, ErrorCode::Argument, "alignment: layer ", layer,
        " is outside the primary's ", config_.primary.layers, " innermost layers");
  const double step = static_cast<double>(config_.specialist.layers - 1) /
                      static_cast<double>(std::max<int64_t>(1, config_.primary.layers - 1));
  return std::llround(static_cast<double>(layer) * step);
}

int64_t AlignmentProjectionImpl::sourceHead(int64_t head) const {
  return head * config_.specialist.heads / config_.primary.heads;
}

at::Tensor AlignmentProjectionImpl::selectHeads(const at::Tensor& states) const {
  if (!headMap_.defined()) return states;
  if (states.is_cpu()) return states.index_select(1, headMap_);
  const int64_t to = config_.primary.heads, from = config_.specialist.heads;
  return states.index_select(1, (at::arange(to, states.options().dtype(at::kLong)) * from).floor_divide(to));
}

at::Tensor AlignmentProjectionImpl::here(const at::Tensor& x) const {
  const at::Tensor& weights = left_.defined() ? left_ : dense_.defined() ? dense_ : vectorMap_;
  return weights.defined() ? queuedTo(x, weights.device()) : x;
}

at::Tensor AlignmentProjectionImpl::forward(int64_t layer, const at::Tensor& given) {
  const at::Tensor states = here(given);
  const auto& p = config_.primary;
  const auto& s = config_.specialist;
  sourceLayer(layer);  // checks the index
  check(states.dim() == 4 && states.size(1) == s.heads && states.size(2) == s.headSize &&
            states.size(3) == s.headSize,
        ErrorCode::Shape, "alignment: states expected (b,", s.heads, ",", s.headSize, ",", s.headSize,
        "), got ", states.sizes());
  if (config_.mode == AlignmentMode::Identity) return states;
  check(states.scalar_type() == config_.dtype, ErrorCode::Dtype, "alignment: states are ",
        states.scalar_type(), ", the parameters ", config_.dtype);
  if (config_.mode == AlignmentMode::Dense) {
    return at::linear(states.flatten(1), dense_.select(0, layer))
        .view({states.size(0), p.heads, p.headSize, p.headSize});
  }
  const auto rows = at::einsum("hij,bhjk->bhik", {left_.select(0, layer), selectHeads(states)});
  return at::einsum("bhik,hlk->bhil", {rows, right_.select(0, layer)});
}

at::Tensor AlignmentProjectionImpl::forwardVector(int64_t index, const at::Tensor& given) {
  const at::Tensor vectors = here(given);
  check(vectors.dim() == 2 && vectors.size(1) == config_.specialist.width(), ErrorCode::Shape,
        "alignment: vectors expected (b,", config_.specialist.width(), "), got ", vectors.sizes());
  check(index >= 0 && index < 2 * config_.primary.layers, ErrorCode::Argument, "alignment: vector ", index,
        " is outside the primary's ", 2 * config_.primary.layers, " shift vectors");
  if (vectorMap_.defined()) return at::linear(vectors, vectorMap_.select(0, index), bias_.select(0, index));
  check(config_.mode == AlignmentMode::Identity, ErrorCode::Config,
        "alignment: made without a map for vectors; create it with vectors: true");
  return vectors;
}

void AlignmentProjectionImpl::checkPairs(const std::vector<at::Tensor>& source,
                                         const std::vector<at::Tensor>& target, bool vectors) const {
  const int64_t perLayer = vectors ? 2 : 1;
  const auto& p = config_.primary;
  const auto& s = config_.specialist;
  const auto expect = [&](const std::vector<at::Tensor>& list, const StateGeometry& g, const char* name) {
    check(static_cast<int64_t>(list.size()) == perLayer * g.layers, ErrorCode::Shape, "alignFit: ", name,
          " has ", list.size(), " tensors, expected ", perLayer * g.layers);
    const auto shape = vectors ? std::vector<int64_t>{list[0].size(0), g.width()}
                               : std::vector<int64_t>{list[0].size(0), g.heads, g.headSize, g.headSize};
    for (size_t i = 0; i < list.size(); ++i)
      check(list[i].sizes() == at::IntArrayRef(shape), ErrorCode::Shape, "alignFit: ", name, "[", i, "] is ",
            list[i].sizes(), ", expected ", at::IntArrayRef(shape));
  };
  expect(source, s, "source");
  expect(target, p, "target");
  check(source[0].size(0) == target[0].size(0) && source[0].size(0) > 0, ErrorCode::Shape,
        "alignFit: source has ", source[0].size(0), " rows, target ", target[0].size(0),
        "; paired states need the same number, at least one");
}

double AlignmentProjectionImpl::fit(const std::vector<at::Tensor>& source,
                                    const std::vector<at::Tensor>& target, double ridge) {
  check(ridge > 0 && std::isfinite(ridge), ErrorCode::Argument, "alignFit: ridge must be positive, was ",
        ridge);
  check(!source.empty() && !target.empty(), ErrorCode::Argument,
        "alignFit: source and target must not be empty");
  const bool vectors = source[0].dim() == 2;
  checkPairs(source, target, vectors);
  check(!vectors || vectorMap_.defined() || config_.mode == AlignmentMode::Identity, ErrorCode::Config,
        "alignFit: made without a map for vectors; create it with vectors: true");
  c10::NoGradGuard noGrad;
  double error = 0, norm = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(target.size()); ++i) {
    const auto from = here(source[vectors ? 2 * sourceLayer(i / 2) + i % 2 : sourceLayer(i)]);
    const auto to = queuedTo(target[i], from.device());
    if (vectors && vectorMap_.defined()) fitVector(i, from, to, ridge);
    if (!vectors && config_.mode != AlignmentMode::Identity) fitLayer(i, from, to, ridge);
    const auto input = from.to(config_.dtype);
    const auto mapped = (vectors ? forwardVector(i, input) : forward(i, input)).to(at::kDouble);
    error += (mapped - to.to(at::kDouble)).square().sum().item<double>();
    norm += to.to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(error / std::max(norm, 1e-300));
}

void AlignmentProjectionImpl::fitLayer(int64_t layer, const at::Tensor& source, const at::Tensor& target,
                                       double ridge) {
  if (config_.mode == AlignmentMode::Dense) {
    const auto map =
        ridgeRegression(source.flatten(1).to(at::kDouble), target.flatten(1).to(at::kDouble), ridge);
    dense_.select(0, layer).copy_(map.t());
    return;
  }
  const auto from = selectHeads(source).to(at::kDouble);
  const auto to = target.to(at::kDouble);
  for (int64_t h = 0; h < config_.primary.heads; ++h) {
    const auto left = left_.select(0, layer).select(0, h), right = right_.select(0, layer).select(0, h);
    const auto fitted =
        bilinearRidge(from.select(1, h), to.select(1, h), left.to(at::kDouble), right.to(at::kDouble), ridge);
    left.copy_(fitted.left);
    right.copy_(fitted.right);
  }
}

void AlignmentProjectionImpl::fitVector(int64_t index, const at::Tensor& source, const at::Tensor& target,
                                        double ridge) {
  const auto from = source.to(at::kDouble), to = target.to(at::kDouble);
  const auto fromMean = from.mean(0), toMean = to.mean(0);
  const auto map = ridgeRegression(from - fromMean, to - toMean, ridge);  // (Ds,Dp)
  vectorMap_.select(0, index).copy_(map.t());
  bias_.select(0, index).copy_(toMean - fromMean.matmul(map));
}

}  // namespace aegir
