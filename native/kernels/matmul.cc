#include "native/kernels/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "native/kernels/matmul_dispatch.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool serves(const at::Tensor& x, const at::Tensor& w, const at::Tensor& addend) {
  const at::ScalarType type = x.scalar_type();
  const auto alike = [&](const at::Tensor& t) { return t.scalar_type() == type && t.device().is_cpu(); };
  return (type == at::kFloat || type == at::kDouble) && alike(x) && alike(w) &&
         (!addend.defined() || alike(addend)) && x.size(0) >= fewestMatmulRows && w.numel() > 0;
}

// x (M,K) w + addend, where w (K,N), or (N,K) where `transposed`
at::Tensor multiply(const at::Tensor& x, const at::Tensor& w, bool transposed, const at::Tensor& addend) {
  const int64_t rows = x.size(0), depth = x.size(1), columns = w.size(transposed ? 0 : 1);
  const at::Tensor y = at::empty({rows, columns}, x.options());
  withReal(x, [&](auto real) {
    using Real = decltype(real);
    const auto& kernels = matmulKernelsOf<Real>();
    const at::Tensor panels = at::empty({panelElements(kernels, depth, columns)}, x.options());
    kernels.packPanels({depth, columns, w.stride(transposed ? 1 : 0), w.stride(transposed ? 0 : 1),
                        pointerAt<Real>(w), mutableAt<Real>(panels)});
    const int64_t addendStride = addend.defined() && addend.dim() == 2 ? columns : 0;
    forEachBlock(rows, blocksFor(rows, depth, columns, kernels.tileRows),
                 [&](int64_t, int64_t begin, int64_t end) {
                   kernels.product({end - begin, depth, columns, x.stride(0), addendStride, columns,
                                    pointerAt<Real>(x, begin * x.stride(0)), pointerAt<Real>(panels),
                                    pointerAt<Real>(addend, begin * addendStride),
                                    mutableAt<Real>(y, begin * columns)});
                 });
  });
  return y;
}

// x (M,A)^T y (M,B) -> (A,B). Each thread takes rows of the result, so the sums do not depend on their
// number.
at::Tensor multiplyTransposed(const at::Tensor& x, const at::Tensor& y) {
  const int64_t tokens = x.size(0), left = x.size(1), right = y.size(1);
  const at::Tensor result = at::empty({left, right}, x.options());
  withReal(x, [&](auto real) {
    using Real = decltype(real);
    const auto& kernels = matmulKernelsOf<Real>();
    const int64_t tiles = (left + kernels.tileRows - 1) / kernels.tileRows;
    forEachBlock(
        tiles, blocksFor(left, tokens, right, kernels.tileRows), [&](int64_t, int64_t first, int64_t last) {
          const int64_t begin = first * kernels.tileRows, end = std::min(last * kernels.tileRows, left);
          const at::Tensor scratch = at::empty({transposedProductScratch(end - begin, right)}, x.options());
          kernels.transposedProduct({tokens, end - begin, right, x.stride(0), y.stride(0), right,
                                     pointerAt<Real>(x, begin), pointerAt<Real>(y),
                                     mutableAt<Real>(result, begin * right), mutableAt<Real>(scratch)});
        });
  });
  return result;
}

// Rows of unit element stride.
at::Tensor asRows(const at::Tensor& x) {
  return x.stride(1) == 1 && x.stride(0) >= x.size(1) ? x : x.contiguous();
}

class ProductFunction : public torch::autograd::Function<ProductFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w,
                            const std::optional<at::Tensor>& addend, bool transposed) {
    context->save_for_backward({x, w});
    context->saved_data["transposed"] = transposed;
    context->saved_data["addendDims"] = addend ? addend->dim() : 0;
    return multiply(x, w, transposed, addend ? addend->contiguous() : at::Tensor());
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuseSecondDerivative("product");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &w = saved[1], grad = asRows(grads[0]);
    const bool transposed = context->saved_data["transposed"].toBool();
    at::Tensor gradX, gradW, gradAddend;
    if (context->needs_input_grad(0)) gradX = multiply(grad, w, !transposed, {});
    if (context->needs_input_grad(1))
      gradW = transposed ? multiplyTransposed(grad, x) : multiplyTransposed(x, grad);
    const int64_t addendDims = context->saved_data["addendDims"].toInt();
    if (addendDims > 0 && context->needs_input_grad(2)) gradAddend = addendDims == 1 ? grad.sum(0) : grads[0];
    return {gradX, gradW, gradAddend, {}};
  }
};

at::Tensor run(const at::Tensor& x, const at::Tensor& w, const at::Tensor& addend, bool transposed) {
  check(x.dim() == 2 && w.dim() == 2 && x.size(1) == w.size(transposed ? 1 : 0), ErrorCode::Shape,
        "product: shapes ", x.sizes(), " and ", w.sizes(), transposed ? " (transposed)" : "", " do not fit");
  if (!serves(x, w, addend)) return matmulReference(x, transposed ? w.t() : w, addend);
  return ProductFunction::apply(asRows(x), w, addend.defined() ? std::optional(addend) : std::nullopt,
                                transposed);
}

}  // namespace

at::Tensor product(const at::Tensor& x, const at::Tensor& w, const at::Tensor& addend) {
  return run(x, w, addend, false);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& addend) {
  return run(x, weight, addend, true);
}

at::Tensor matmulReference(const at::Tensor& x, const at::Tensor& w, const at::Tensor& addend) {
  return addend.defined() ? at::addmm(addend, x, w) : at::mm(x, w);
}

}  // namespace aegir::kernels
