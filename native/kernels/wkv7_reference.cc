#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <vector>

#include "native/core/dtype.h"
#include "native/core/error.h"
#include "native/kernels/sequence_layout.h"
#include "native/kernels/wkv7.h"

namespace aegir::kernels {
namespace {

// A padded position gets decay 1 and zeros elsewhere: that leaves the state exact and its output zero, and
// NaN in padding reaches neither values nor gradients.
std::tuple<at::Tensor, at::Tensor> recurrence(const Wkv7Input& input, at::Tensor state,
                                              const at::Tensor& lengths) {
  const int64_t batch = input.r.size(0), tokens = input.r.size(1);
  const at::Tensor valid =
      validPositions(batch, tokens, lengths).unsqueeze(-1).unsqueeze(-1).to(input.r.device());
  const auto masked = [&](const at::Tensor& x, double padding) {
    return at::where(valid, x.to(state.scalar_type()), at::Scalar(padding));
  };
  const at::Tensor r = masked(input.r, 0), decay = masked(input.decay, 1), k = masked(input.k, 0),
                   v = masked(input.v, 0), a = masked(input.a, 0), b = masked(input.b, 0);
  std::vector<at::Tensor> outputs;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto row = [t](const at::Tensor& x) { return x.select(1, t).unsqueeze(-2); };     // (B,H,1,N)
    const auto column = [t](const at::Tensor& x) { return x.select(1, t).unsqueeze(-1); };  // (B,H,N,1)
    const at::Tensor stateTimesA = state.matmul(column(a));
    state = state * row(decay) + stateTimesA * row(b) + column(v) * row(k);
    outputs.push_back(state.matmul(column(r)).squeeze(-1));
  }
  const at::Tensor output = tokens > 0 ? at::stack(outputs, 1) : at::zeros_like(v);
  return {output.to(input.r.scalar_type()), state};
}

std::tuple<at::Tensor, at::Tensor> packedRecurrence(const Wkv7Input& input, const at::Tensor& state) {
  const SequenceLayout layout = sequenceLayout(1, input.r.size(1), {}, input.cuSeqlens);
  if (layout.size() == 0) return {at::zeros_like(input.r), state};
  std::vector<at::Tensor> outputs, states;
  for (int64_t s = 0; s < layout.size(); ++s) {
    const auto part = [&](const at::Tensor& x) { return x.narrow(1, layout.start[s], layout.length[s]); };
    const Wkv7Input sequence{part(input.r),
                             part(input.decay),
                             part(input.k),
                             part(input.v),
                             part(input.a),
                             part(input.b),
                             {},
                             {},
                             {}};
    auto [output, final] = recurrence(sequence, state.narrow(0, s, 1), {});
    outputs.push_back(output);
    states.push_back(final);
  }
  return {at::cat(outputs, 1), at::cat(states, 0)};
}

}  // namespace

void checkWkv7Input(const Wkv7Input& input) {
  const at::Tensor& r = input.r;
  const std::pair<const char*, const at::Tensor*> named[] = {
      {"r", &r}, {"decay", &input.decay}, {"k", &input.k}, {"v", &input.v}, {"a", &input.a}, {"b", &input.b}};
  for (const auto& [name, tensor] : named)
    check(tensor->defined(), ErrorCode::Argument, "wkv7 ", name, ": missing");
  check(r.dim() == 4, ErrorCode::Shape, "wkv7 r: expected (B,T,H,N), got ", r.sizes());
  check(r.size(3) > 0, ErrorCode::Shape, "wkv7 r: head size must not be 0, got ", r.sizes());
  const at::ScalarType type = r.scalar_type();
  check(type == at::kFloat || type == at::kDouble || type == at::kBFloat16, ErrorCode::Dtype,
        "wkv7 r: expected f32, f64 or bf16, got ", type);
  for (const auto& [name, tensor] : named) {
    check(tensor->sizes() == r.sizes(), ErrorCode::Shape, "wkv7 ", name, ": expected r's shape ", r.sizes(),
          ", got ", tensor->sizes());
    check(tensor->scalar_type() == type, ErrorCode::Dtype, "wkv7 ", name, ": expected r's dtype ", type,
          ", got ", tensor->scalar_type());
    check(tensor->device() == r.device(), ErrorCode::Device, "wkv7 ", name, ": expected r's device ",
          r.device(), ", got ", tensor->device());
  }
  const int64_t sequences = sequenceCount(r.size(0), r.size(1), input.lengths, input.cuSeqlens);
  if (!input.initialState.defined()) return;
  const std::vector<int64_t> expected{sequences, r.size(2), r.size(3), r.size(3)};
  check(input.initialState.sizes() == at::IntArrayRef(expected), ErrorCode::Shape,
        "wkv7 initialState: expected ", at::IntArrayRef(expected), ", got ", input.initialState.sizes());
  check(input.initialState.scalar_type() == accumulateType(input.r.scalar_type()), ErrorCode::Dtype,
        "wkv7 initialState: expected ", accumulateType(input.r.scalar_type()), ", got ",
        input.initialState.scalar_type());
  check(input.initialState.device() == r.device(), ErrorCode::Device,
        "wkv7 initialState: expected r's device ", r.device(), ", got ", input.initialState.device());
}

std::tuple<at::Tensor, at::Tensor> wkv7Reference(const Wkv7Input& input) {
  checkWkv7Input(input);
  const int64_t sequences = input.cuSeqlens.defined() ? input.cuSeqlens.numel() - 1 : input.r.size(0);
  const int64_t heads = input.r.size(2), headSize = input.r.size(3);
  const at::Tensor state = input.initialState.defined()
                               ? input.initialState
                               : at::zeros({sequences, heads, headSize, headSize},
                                           input.r.options().dtype(accumulateType(input.r.scalar_type())));
  return input.cuSeqlens.defined() ? packedRecurrence(input, state) : recurrence(input, state, input.lengths);
}

}  // namespace aegir::kernels
