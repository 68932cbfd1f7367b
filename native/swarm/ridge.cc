#include "native/swarm/ridge.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "native/core/error.h"

namespace aegir {
namespace {

// (gram + lambda I)^-1 rhs
at::Tensor solveRidge(const at::Tensor& gram, const at::Tensor& rhs, double lambda) {
  return at::linalg_solve(gram + at::eye(gram.size(0), gram.options()).mul_(lambda), rhs);
}

// The ridge in units of the Gram matrix, kept above zero for sources that are zero throughout.
double scaledRidge(const at::Tensor& gram, int64_t features, double ridge) {
  const double mean = gram.diagonal().sum().item<double>() / static_cast<double>(features);
  return std::max(ridge * mean, 1e-300 + ridge * 1e-12);
}

// Solution F (Np,Ns) of sum_b ||F A_b - T_b||^2: A (R,Ns,K), T (R,Np,K).
at::Tensor solveSide(const at::Tensor& a, const at::Tensor& t, double ridge) {
  const auto gram = at::einsum("rik,rjk->ij", {a, a});
  const auto cross = at::einsum("rik,rjk->ij", {a, t});  // (Ns,Np)
  return solveRidge(gram, cross, scaledRidge(gram, gram.size(0), ridge)).t().contiguous();
}

double bilinearLoss(const at::Tensor& source, const at::Tensor& target, const BilinearFit& fit) {
  const auto mapped = at::einsum("ij,rjk,lk->ril", {fit.left, source, fit.right});
  return (mapped - target).square().sum().item<double>();
}

// L -> cL, R -> R/c changes nothing in the map; equal norms keep later training of both sides at one scale.
void balance(BilinearFit& fit) {
  const double left = fit.left.norm().item<double>(), right = fit.right.norm().item<double>();
  if (left <= 0 || right <= 0) return;
  const double c = std::sqrt(right / left);
  fit.left.mul_(c);
  fit.right.div_(c);
}

}  // namespace

at::Tensor ridgeRegression(const at::Tensor& x, const at::Tensor& y, double ridge) {
  if (x.size(0) < x.size(1)) {
    const auto gram = x.matmul(x.t());
    return x.t().matmul(solveRidge(gram, y, scaledRidge(gram, x.size(1), ridge)));
  }
  const auto gram = x.t().matmul(x);
  return solveRidge(gram, x.t().matmul(y), scaledRidge(gram, x.size(1), ridge));
}

BilinearFit bilinearRidge(const at::Tensor& source, const at::Tensor& target, at::Tensor left,
                          at::Tensor right, double ridge, int maxIterations) {
  BilinearFit fit{std::move(left), std::move(right)};
  const auto sourceT = source.transpose(1, 2), targetT = target.transpose(1, 2);
  double loss = bilinearLoss(source, target, fit);
  for (int i = 0; i < maxIterations; ++i) {
    fit.left = solveSide(at::einsum("rjk,lk->rjl", {source, fit.right}), target, ridge);
    fit.right = solveSide(at::einsum("rkj,lj->rkl", {sourceT, fit.left}), targetT, ridge);
    balance(fit);
    const double next = bilinearLoss(source, target, fit);
    if (loss - next <= 1e-9 * loss) break;
    loss = next;
  }
  return fit;
}

LatentRidge latentRidge(const at::Tensor& wOut, const at::Tensor& wIn, double lambda) {
  check(wOut.dim() == 2 && wIn.dim() == 2 && wOut.size(0) == wIn.size(0), ErrorCode::Shape,
        "latentRidge: wOut ", wOut.sizes(), " and wIn ", wIn.sizes(), " must be (V,D) over one vocabulary");
  check(lambda > 0 && std::isfinite(lambda), ErrorCode::Argument,
        "latentRidge: lambda must be positive, was ", lambda);
  c10::NoGradGuard noGrad;
  const auto out = wOut.to(at::kDouble), in = wIn.to(at::kDouble);
  const auto map = solveRidge(out.t().matmul(out), out.t().matmul(in), lambda);
  return {map, at::linalg_vector_norm(in, 2, 1).mean().item<double>()};
}

at::Tensor latentAlign(const LatentRidge& fit, const at::Tensor& hidden) {
  check(hidden.dim() == 2 && hidden.size(1) == fit.map.size(0), ErrorCode::Shape,
        "latentRidge: hidden expected (R,", fit.map.size(0), "), got ", hidden.sizes());
  const auto mapped = hidden.to(at::kDouble).matmul(fit.map);
  const auto norm = at::linalg_vector_norm(mapped, 2, 1, true).clamp_min(1e-6);
  return mapped * (fit.targetNorm / norm);
}

}  // namespace aegir
