// The capped-Bernoulli policy (native/kernels/capped_bernoulli.h), a thread per row in double. A row's tables
// lie in its part of `room`; forbidden specialists (z = -inf) have weight 0 and need no other treatment.
#include "native/cuda/device_code.h"
#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

constexpr int blockThreads = 64;

// A sum over actions of e^(a.z), kept as its logarithm: `+` joins disjoint sets of actions, `*` independent
// choices.
struct Weight {
  double log = -INFINITY;
  static __device__ Weight one() { return {0}; }
  static __device__ Weight activate(double z, double) { return {z}; }
};
__device__ Weight operator*(Weight x, Weight y) { return {x.log + y.log}; }
__device__ Weight operator+(Weight x, Weight y) {
  const double high = fmax(x.log, y.log);
  if (high == -INFINITY) return {};
  return {high + log1p(exp(fmin(x.log, y.log) - high))};
}

// The same with the mean of a.v over those actions.
struct MeanWeight {
  double log = -INFINITY, mean = 0;
  static __device__ MeanWeight one() { return {0, 0}; }
  static __device__ MeanWeight activate(double z, double v) {
    if (z == -INFINITY) return {};
    return {z, v};
  }
};
__device__ MeanWeight operator*(MeanWeight x, MeanWeight y) { return {x.log + y.log, x.mean + y.mean}; }
__device__ MeanWeight operator+(MeanWeight x, MeanWeight y) {
  const double log = (Weight{x.log} + Weight{y.log}).log;
  if (log == -INFINITY) return {};
  return {log, exp(x.log - log) * x.mean + exp(y.log - log) * y.mean};
}

template <class W>
struct Row {
  int64_t n, cap;
  const double *z, *v;  // v may be null
  W *table, *exactly;   // (n+1, cap+1), (cap+1)

  __device__ Row(const CappedPolicy& p, int64_t row, const double* direction)
      : n(p.n),
        cap(p.cap),
        z(p.z + row * p.n),
        v(direction == nullptr ? nullptr : direction + row * p.n),
        table(reinterpret_cast<W*>(p.room + row * p.roomStride)),
        exactly(table + (p.n + 1) * (p.cap + 1)) {
    for (int64_t b = 0; b <= cap; ++b) atMost(n, b) = W::one();
    for (int64_t i = n - 1; i >= 0; --i) {
      atMost(i, 0) = W::one();
      for (int64_t b = 1; b <= cap; ++b) atMost(i, b) = atMost(i + 1, b) + choice(i) * atMost(i + 1, b - 1);
    }
  }

  __device__ W choice(int64_t i) const { return W::activate(z[i], v == nullptr ? 0.0 : v[i]); }
  // The specialists from i on, at most b of them.
  __device__ W& atMost(int64_t i, int64_t b) const { return table[i * (cap + 1) + b]; }
  __device__ W total() const { return atMost(0, cap); }

  // each(i, sum of the weights of the actions that activate i).
  template <class Each>
  __device__ void forEachActivation(const Each& each) const {
    for (int64_t k = 0; k <= cap; ++k) exactly[k] = W{};
    exactly[0] = W::one();  // exactly[k]: activating k of the specialists before i
    for (int64_t i = 0; i < n; ++i) {
      W others{};
      for (int64_t k = 0; k < cap; ++k) others = others + exactly[k] * atMost(i + 1, cap - 1 - k);
      each(i, choice(i) * others);
      for (int64_t k = cap; k > 0; --k) exactly[k] = exactly[k] + exactly[k - 1] * choice(i);
    }
  }
};

__device__ int64_t rowOfThread() { return static_cast<int64_t>(blockIdx.x) * blockThreads + threadIdx.x; }

__global__ void __launch_bounds__(blockThreads) momentsKernel(const CappedMoments p) {
  const int64_t r = rowOfThread();
  if (r >= p.policy.rows) return;
  const Row<Weight> row(p.policy, r, nullptr);
  p.logZ[r] = row.total().log;
  if (p.marginals == nullptr) return;
  row.forEachActivation(
      [&](int64_t i, Weight on) { p.marginals[r * p.policy.n + i] = exp(on.log - row.total().log); });
}

// Cov(a_i, a.v) = P(a_i = 1) (E[a.v | a_i = 1] - E[a.v]).
__global__ void __launch_bounds__(blockThreads) covarianceKernel(const CappedCovariance p) {
  const int64_t r = rowOfThread();
  if (r >= p.policy.rows) return;
  const Row<MeanWeight> row(p.policy, r, p.v);
  row.forEachActivation([&](int64_t i, MeanWeight on) {
    const double marginal = exp(on.log - row.total().log);
    p.result[r * p.policy.n + i] = marginal == 0 ? 0.0 : marginal * (on.mean - row.total().mean);
  });
}

// P(a_i = 1) = e^z_i Z_{b-1}(after i) / Z_b(from i), specialist by specialist with the remaining budget b.
__global__ void __launch_bounds__(blockThreads) sampleKernel(const CappedSample p) {
  const int64_t r = rowOfThread(), n = p.policy.n;
  if (r >= p.policy.rows) return;
  const Row<Weight> row(p.policy, r, nullptr);
  for (int64_t g = 0; g < p.draws; ++g) {
    const int64_t at = (g * p.policy.rows + r) * n;
    int64_t budget = p.policy.cap;
    for (int64_t i = 0; i < n; ++i) {
      double on = -INFINITY;
      if (budget > 0) on = (row.choice(i) * row.atMost(i + 1, budget - 1)).log - row.atMost(i, budget).log;
      const bool active = p.uniforms[at + i] < exp(on);
      p.actions[at + i] = active;
      budget -= active;
    }
  }
}

template <class Arguments>
cudaError_t startRows(void (*kernel)(Arguments), const std::remove_const_t<Arguments>& p,
                      cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((p.policy.rows + blockThreads - 1) / blockThreads);
  if (blocks > 0) start(kernel, blocks, blockThreads, stream, p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch(const CappedMoments& p, cudaStream_t stream) {
  return startRows(momentsKernel, p, stream);
}
cudaError_t launch(const CappedCovariance& p, cudaStream_t stream) {
  return startRows(covarianceKernel, p, stream);
}
cudaError_t launch(const CappedSample& p, cudaStream_t stream) { return startRows(sampleKernel, p, stream); }

}  // namespace aegir::cuda
