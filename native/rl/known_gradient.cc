#include "native/rl/known_gradient.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "native/core/dtype.h"
#include "native/core/error.h"

namespace aegir::rl {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct KnownGradient : public torch::autograd::Function<KnownGradient> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& value,
                            const at::Tensor& gradient) {
    context->save_for_backward({gradient});
    context->saved_data["dtype"] = static_cast<int64_t>(input.scalar_type());
    return value.clone();
  }

  static tensor_list backward(AutogradContext* context, tensor_list outputs) {
    const auto type = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    const auto gradient = context->get_saved_variables()[0] * outputs[0];
    return {gradient.to(type), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor withKnownGradient(const at::Tensor& input, const at::Tensor& value, const at::Tensor& gradient) {
  if (!input.requires_grad()) return value;
  c10::AutoGradMode withGraph(true);
  return KnownGradient::apply(input, value, gradient);
}

at::Tensor weightedSum(const at::Tensor& x, const at::Tensor& coefficients) {
  check(x.is_floating_point(), ErrorCode::Dtype, "x: expected f32, f64 or bf16, got ",
        dtypeName(x.scalar_type()));
  check(coefficients.sizes() == x.sizes(), ErrorCode::Shape, "coefficients: expected the shape of x ",
        x.sizes(), ", got ", coefficients.sizes());
  const auto type = accumulateType(x.scalar_type());
  const auto weights = coefficients.detach().to(x.device(), type);
  const auto products = at::where(weights.ne(0), x.detach().to(type) * weights, 0.0);
  return withKnownGradient(x, products.to(at::kDouble).sum().to(type), weights);
}

}  // namespace aegir::rl
