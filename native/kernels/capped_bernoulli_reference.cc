#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <vector>

#include "native/kernels/capped_bernoulli.h"

namespace aegir::kernels {
namespace {

// In place of -inf, whose differences have no derivative: e^this is 0 all the same.
constexpr double kForbidden = -1e30;

}  // namespace

at::Tensor cappedBernoulliLogZReference(const at::Tensor& z, int64_t cap) {
  const auto finite = at::where(z.isneginf(), kForbidden, z);
  // e[k] = log e_k of the specialists so far, (R).
  std::vector<at::Tensor> e{at::zeros({z.size(0)}, z.options())};
  for (int64_t k = 1; k <= cap; ++k) e.push_back(at::full({z.size(0)}, kForbidden, z.options()));
  for (int64_t n = 0; n < z.size(1); ++n) {
    for (int64_t k = cap; k > 0; --k) e[k] = at::logaddexp(e[k], e[k - 1] + finite.select(1, n));
  }
  return at::logsumexp(at::stack(e, 0), 0);
}

at::Tensor cappedBernoulliMarginalsReference(const at::Tensor& z, int64_t cap) {
  if (cap == 0 || z.size(1) == 0) return at::zeros_like(z);
  const auto logZ = cappedBernoulliLogZReference(z, cap);
  const auto finite = at::where(z.isneginf(), kForbidden, z);
  std::vector<at::Tensor> columns;
  for (int64_t n = 0; n < z.size(1); ++n) {
    const auto others = at::cat({z.slice(1, 0, n), z.slice(1, n + 1)}, 1);
    columns.push_back(at::exp(finite.select(1, n) + cappedBernoulliLogZReference(others, cap - 1) - logZ));
  }
  return at::stack(columns, 1);
}

}  // namespace aegir::kernels
