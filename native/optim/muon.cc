#include "native/optim/muon.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>

namespace aegir::optim {

at::Tensor orthogonalise(const at::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  constexpr int steps = 5;
  // The Gram matrix of the shorter side is the smaller one.
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  x = x / (at::linalg_vector_norm(matrix) + 1e-12);
  for (int i = 0; i < steps; ++i) {
    const at::Tensor gram = at::matmul(x, x.t());
    const at::Tensor polynomial = at::addmm(gram, gram, gram, b, c);
    x = at::addmm(x, polynomial, x, a, 1);
  }
  return tall ? x.t() : x;
}

void muonUpdate(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& momentum,
                double beta, double lr, double decay) {
  const at::NoGradGuard noGrad;
  momentum.mul_(beta).add_(gradient);
  const auto direction = orthogonalise(at::add(gradient, momentum, beta));
  const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(parameter.size(0), parameter.size(1))));
  parameter.mul_(decay).add_(direction, -lr * scale);
}

}  // namespace aegir::optim
