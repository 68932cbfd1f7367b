#include "native/model/chunking.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "native/kernels/ema_scan.h"
#include "native/kernels/matmul.h"

namespace aegir::model {

namespace {

at::Tensor normalise(const at::Tensor& x) {
  return x / at::linalg_vector_norm(x, 2, at::IntArrayRef{-1}, /*keepdim=*/true).clamp_min(1e-12);
}

class StraightThrough : public torch::autograd::Function<StraightThrough> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& confidence,
                            const at::Tensor& dechunked) {
    context->save_for_backward({dechunked});
    return dechunked;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto dechunked = context->get_saved_variables()[0];
    return {(gradients[0] * dechunked).sum(-1), gradients[0]};
  }
};

}  // namespace

RoutingModule::RoutingModule(const InitContext& context, int64_t dModel) {
  query_ = register_parameter("query", identity(context, dModel));
  key_ = register_parameter("key", identity(context, dModel));
}

Routing RoutingModule::forward(const at::Tensor& h, const at::Tensor& lastHidden,
                               const Sequences& sequences) const {
  const auto query = normalise(kernels::linear(shiftTokens(h, lastHidden, sequences), query_));
  const auto cosine = (query * normalise(kernels::linear(h, key_))).sum(-1);
  auto p = ((1 - cosine) * 0.5).clamp(0, 1);
  if (!lastHidden.defined()) {
    const auto first = sequences.previous >= sequences.tokens;
    p = at::where(first, at::ones({}, p.options()), p);
  }
  return {p, p >= 0.5, lastTokens(h, lastHidden, sequences)};
}

Chunks chunk(const Routing& routing, const Sequences& sequences) {
  Chunks chunks;
  chunks.kept = at::nonzero(routing.boundary).squeeze(1);
  const int64_t count = chunks.kept.size(0);
  const auto zero = at::zeros({1}, sequences.cuSeqlens.options());
  const auto seen = at::cat({zero, at::cumsum(routing.boundary, 0)});  // (K+1) boundaries before each token
  chunks.sequences = makeSequences(seen.index_select(0, sequences.cuSeqlens), count);
  // A sequence that goes on from a state may have tokens before its first boundary here.
  const auto last = seen.narrow(0, 1, sequences.tokens) - 1;
  const auto firstChunk = chunks.sequences.cuSeqlens.index_select(0, sequences.sequenceOf);
  chunks.chunkOf = at::where(last >= firstChunk, last, sequences.sequenceOf + count);
  return chunks;
}

Dechunked dechunk(const at::Tensor& inner, const Routing& routing, const Chunks& chunks,
                  const at::Tensor& lastValue) {
  const auto p = routing.p.index_select(0, chunks.kept).clamp(1e-4, 1 - 1e-4);
  const auto [smoothed, last] = kernels::emaScan(
      {inner.unsqueeze(0), p.unsqueeze(0), lastValue, at::Tensor(), chunks.sequences.cuSeqlens});
  const auto values = smoothed.squeeze(0);
  const auto table = lastValue.defined() ? at::cat({values, lastValue}) : values;
  return {table.index_select(0, chunks.chunkOf), last};
}

at::Tensor straightThrough(const at::Tensor& dechunked, const Routing& routing) {
  if (!routing.p.requires_grad()) return dechunked;
  return StraightThrough::apply(at::where(routing.boundary, routing.p, 1 - routing.p), dechunked);
}

at::Tensor ratioLoss(double boundaryRate, const at::Tensor& p, double downsample) {
  const double scale = downsample / (downsample - 1);
  const auto g = p.mean();
  return (1 - g) * (scale * (1 - boundaryRate)) + g * (scale * (downsample - 1) * boundaryRate);
}

}  // namespace aegir::model
