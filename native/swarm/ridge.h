// Closed-form starts of alignments (docs/rl.md §7). All in float64, without autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace aegir {

// W (P,Q) = argmin ||X W - Y||^2 + ridge * s * ||W||^2 with X (R,P), Y (R,Q) and s the mean diagonal of X^T
// X, so that one value of `ridge` serves states of any size. Solved through the smaller of the two Gram
// matrices.
at::Tensor ridgeRegression(const at::Tensor& x, const at::Tensor& y, double ridge);

struct BilinearFit {
  at::Tensor left;   // (Np,Ns)
  at::Tensor right;  // (Np,Ns)
};

// Alternating ridge for L S_b R^T = T_b: source (R,Ns,Ns), target (R,Np,Np). With R held, L solves a ridge
// regression, and the other way round; stops when an iteration gains less than 1e-9 of the loss.
BilinearFit bilinearRidge(const at::Tensor& source, const at::Tensor& target, at::Tensor left,
                          at::Tensor right, double ridge, int maxIterations = 100);

struct LatentRidge {
  at::Tensor map;     // (D_out,D_in)
  double targetNorm;  // mean norm of the rows of W_in
};

// LatentMAS (arXiv:2511.20639): W_a = (W_out^T W_out + lambda I)^-1 W_out^T W_in for embeddings of one
// vocabulary W_out (V,D_out), W_in (V,D_in).
LatentRidge latentRidge(const at::Tensor& wOut, const at::Tensor& wIn, double lambda);

// e = h W_a * targetNorm / max(||h W_a||, 1e-6), by row: h (R,D_out).
at::Tensor latentAlign(const LatentRidge& fit, const at::Tensor& hidden);

}  // namespace aegir
