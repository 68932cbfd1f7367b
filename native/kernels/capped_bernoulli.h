// The capped-Bernoulli routing policy on rows of logits z (R,n):
//   pi_K(a) = exp(a.z - log Z_K(z)) on { a in {0,1}^n : sum a <= K },  Z_K = sum_{k<=K} e_k(e^z)
// with e_k the elementary symmetric polynomials; K = n is independent Bernoulli with p = sigmoid(z). A
// forbidden specialist has z = -inf. Everything in double, O(nK) a row; rows are independent, results
// deterministic.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace aegir::kernels {

// Row-major z (rows, n), finite or -inf. A cap above n is n.
struct CappedBernoulliPolicy {
  const double* z = nullptr;
  int64_t rows = 0;
  int64_t n = 0;
  int64_t cap = 0;
};

// log Z (rows).
void cappedBernoulliLogZ(const CappedBernoulliPolicy& policy, double* logZ);

// Marginals P(a_i = 1) (rows, n) and log Z (rows).
void cappedBernoulliMarginals(const CappedBernoulliPolicy& policy, double* marginals, double* logZ);

// Cov(a) v (rows, n) for directions v (rows, n): the Jacobian of the marginals, a symmetric matrix, applied
// to v. v is not read where z = -inf; the result is 0 there.
void cappedBernoulliCovariance(const CappedBernoulliPolicy& policy, const double* v, double* result);

// Exact samples (draws, rows, n) from uniforms in [0,1) of that shape.
void cappedBernoulliSample(const CappedBernoulliPolicy& policy, const double* uniforms, int64_t draws,
                           bool* actions);

// The up to cap largest z above `cut` (rows, n), ties to the lower index.
void cappedBernoulliMode(const CappedBernoulliPolicy& policy, double cut, bool* actions);

// The same through the CUDA plug-in, on contiguous f64 tensors on a GPU: marginals (rows, n) and log Z
// (rows); log Z alone; Cov(a) v; samples of the shape of `uniforms`.
std::pair<at::Tensor, at::Tensor> cappedBernoulliMarginalsCuda(const at::Tensor& z, int64_t cap);
at::Tensor cappedBernoulliLogZCuda(const at::Tensor& z, int64_t cap);
at::Tensor cappedBernoulliCovarianceCuda(const at::Tensor& z, int64_t cap, const at::Tensor& v);
at::Tensor cappedBernoulliSampleCuda(const at::Tensor& z, int64_t cap, const at::Tensor& uniforms);

// Plain ATen on z (R,n) of f64, differentiated by autograd: the oracles of tests.
at::Tensor cappedBernoulliLogZReference(const at::Tensor& z, int64_t cap);
at::Tensor cappedBernoulliMarginalsReference(const at::Tensor& z, int64_t cap);

}  // namespace aegir::kernels
