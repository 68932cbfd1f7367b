#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <vector>

#include "native/core/dtype.h"
#include "native/core/error.h"
#include "native/kernels/ema_scan.h"
#include "native/kernels/sequence_layout.h"

namespace aegir::kernels {
namespace {

// Padded positions get p = 0 and x = 0: the value is carried over exactly, and NaN in padding reaches
// nothing.
std::tuple<at::Tensor, at::Tensor> scan(const at::Tensor& xIn, const at::Tensor& pIn,
                                        const at::Tensor& initial, const at::Tensor& lengths) {
  const int64_t batch = xIn.size(0), tokens = xIn.size(1), width = xIn.size(2);
  const at::Tensor valid = validPositions(batch, tokens, lengths).unsqueeze(-1).to(xIn.device());   // (B,M,1)
  const at::Tensor x = at::where(valid, xIn.to(accumulateType(xIn.scalar_type())), at::Scalar(0));  // (B,M,D)
  const at::Tensor p =
      at::where(valid, pIn.to(accumulateType(xIn.scalar_type())).unsqueeze(-1), at::Scalar(0));  // (B,M,1)
  at::Tensor y = initial.defined() ? initial.to(x.scalar_type())
                 : tokens > 0      ? x.select(1, 0)
                                   : at::zeros({batch, width}, x.options());
  std::vector<at::Tensor> outputs;
  for (int64_t t = 0; t < tokens; ++t) {
    y = p.select(1, t) * x.select(1, t) + (1 - p.select(1, t)) * y;
    outputs.push_back(y);
  }
  if (tokens == 0) return {at::zeros_like(xIn), y};
  return {at::where(valid, at::stack(outputs, 1), at::Scalar(0)).to(xIn.scalar_type()), y};
}

}  // namespace

void checkEmaScanInput(const EmaScanInput& input) {
  const at::Tensor &x = input.x, &p = input.p, &initial = input.initial;
  check(x.defined(), ErrorCode::Argument, "emaScan x: missing");
  check(p.defined(), ErrorCode::Argument, "emaScan p: missing");
  check(x.dim() == 3, ErrorCode::Shape, "emaScan x: expected (B,M,D), got ", x.sizes());
  const at::ScalarType type = x.scalar_type();
  check(type == at::kFloat || type == at::kDouble || type == at::kBFloat16, ErrorCode::Dtype,
        "emaScan x: expected f32, f64 or bf16, got ", type);
  check(p.sizes() == x.sizes().slice(0, 2), ErrorCode::Shape,
        "emaScan p: expected (B,M) = ", x.sizes().slice(0, 2), ", got ", p.sizes());
  const int64_t sequences = sequenceCount(x.size(0), x.size(1), input.lengths, input.cuSeqlens);
  const auto checkKind = [&](const char* name, const at::Tensor& tensor) {
    check(tensor.scalar_type() == type || tensor.scalar_type() == at::kFloat, ErrorCode::Dtype, "emaScan ",
          name, ": expected x's dtype ", type, " or f32, got ", tensor.scalar_type());
    check(tensor.device() == x.device(), ErrorCode::Device, "emaScan ", name, ": expected x's device ",
          x.device(), ", got ", tensor.device());
  };
  checkKind("x", x);
  checkKind("p", p);
  if (!initial.defined()) return;
  check(initial.dim() == 2 && initial.size(0) == sequences && initial.size(1) == x.size(2), ErrorCode::Shape,
        "emaScan initial: expected [", sequences, ", ", x.size(2), "], got ", initial.sizes());
  checkKind("initial", initial);
}

std::tuple<at::Tensor, at::Tensor> emaScanReference(const EmaScanInput& input) {
  checkEmaScanInput(input);
  if (!input.cuSeqlens.defined()) return scan(input.x, input.p, input.initial, input.lengths);
  const SequenceLayout layout = sequenceLayout(1, input.x.size(1), {}, input.cuSeqlens);
  if (layout.size() == 0)
    return {at::zeros_like(input.x),
            at::zeros({0, input.x.size(2)}, input.x.options().dtype(accumulateType(input.x.scalar_type())))};
  std::vector<at::Tensor> outputs, finals;
  for (int64_t s = 0; s < layout.size(); ++s) {
    const at::Tensor initial = input.initial.defined() ? input.initial.narrow(0, s, 1) : at::Tensor();
    auto [output, final] = scan(input.x.narrow(1, layout.start[s], layout.length[s]),
                                input.p.narrow(1, layout.start[s], layout.length[s]), initial, {});
    outputs.push_back(output);
    finals.push_back(final);
  }
  return {at::cat(outputs, 1), at::cat(finals, 0)};
}

}  // namespace aegir::kernels
