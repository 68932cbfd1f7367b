// The clipped token loss (native/kernels/clip_loss.h), forward and backward in one pass over the tokens. Sums
// have two levels, both in a fixed order: the threads of a block through shared memory, then the blocks in
// one block.
#include "native/cuda/device_code.h"
#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

constexpr int blockThreads = 256;
constexpr double maxLogRatio = 20;
enum Kl { k1, k2, k3 };
enum Aggregation { tokenMean, seqMeanTokenMean, seqMeanTokenSum, seqMeanTokenSumNorm };

struct Sums {
  double of[clipLossSums];

  __device__ Sums() {
    for (double& sum : of) sum = 0;
    of[clipBadToken] = INFINITY;
  }
  __device__ void add(const double* other) {
    for (int i = 0; i < clipMaxLogRatio; ++i) of[i] += other[i];
    of[clipMaxLogRatio] = fmax(of[clipMaxLogRatio], other[clipMaxLogRatio]);
    of[clipBadToken] = fmin(of[clipBadToken], other[clipBadToken]);
  }
};

// Thread 0 writes what the threads of the block hold together.
__device__ void storeTotal(const Sums& sums, double* to) {
  __shared__ double shared[blockThreads / 2][clipLossSums];
  Sums total = sums;
  for (int half = blockThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half && threadIdx.x < 2 * half) {
      for (int i = 0; i < clipLossSums; ++i) shared[threadIdx.x - half][i] = total.of[i];
    }
    __syncthreads();
    if (threadIdx.x < half) total.add(shared[threadIdx.x]);
  }
  if (threadIdx.x != 0) return;
  for (int i = 0; i < clipLossSums; ++i) to[i] = total.of[i];
}

__device__ double sumOfBlock(double value) {
  __shared__ double shared[blockThreads];
  __syncthreads();
  shared[threadIdx.x] = value;
  for (int half = blockThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  __syncthreads();
  return shared[0];
}

// A block per row: its weights, and whether a token of it is valid.
template <class Real>
__global__ void __launch_bounds__(blockThreads) rowsKernel(const ClipLoss p) {
  const int64_t row = blockIdx.x;
  double weight = 0, valid = 0;
  for (int64_t t = threadIdx.x; t < p.tokens; t += blockThreads) {
    const int64_t i = row * p.tokens + t;
    if (p.mask != nullptr && !p.mask[i]) continue;
    valid += 1;
    weight += p.weights == nullptr ? 1.0 : static_cast<double>(as<Real>(p.weights)[i]);
  }
  weight = sumOfBlock(weight);
  valid = sumOfBlock(valid);
  if (threadIdx.x != 0) return;
  p.rowSums[2 * row] = weight;
  p.rowSums[2 * row + 1] = valid > 0 ? 1 : 0;
}

// One block: what the tokens of each row are multiplied by.
__global__ void __launch_bounds__(blockThreads) scalesKernel(const ClipLoss p) {
  double weight = 0, sequences = 0;
  for (int64_t row = threadIdx.x; row < p.rows; row += blockThreads) {
    weight += p.rowSums[2 * row];
    sequences += p.rowSums[2 * row + 1];
  }
  weight = sumOfBlock(weight);
  sequences = sumOfBlock(sequences);
  double denominator = p.form.aggregation == tokenMean ? weight : sequences;
  if (p.form.aggregation == seqMeanTokenSumNorm) denominator = static_cast<double>(p.rows) * p.form.norm;
  if (p.form.denominator > 0) denominator = p.form.denominator;
  for (int64_t row = threadIdx.x; row < p.rows; row += blockThreads) {
    const double divisor =
        p.form.aggregation == seqMeanTokenMean ? denominator * p.rowSums[2 * row] : denominator;
    p.scales[row] = divisor == 0 ? 0 : 1 / divisor;
  }
}

struct Terms {
  double loss = 0, grad = 0;
  bool low = false, high = false, dual = false;
};

// Gradient 0 outside the window; `saturated`: the log-ratio was clamped.
template <class Real>
__device__ Terms ppoTerms(Real advantage, Real ratio, bool saturated, const ClipLossForm& form) {
  Terms out;
  const bool gain = advantage >= 0;
  const double lowest = 1 - form.epsLow, highest = 1 + form.epsHigh;
  out.high = gain && ratio > highest;
  out.low = !gain && ratio < lowest;
  out.dual = !gain && form.dualClip > 0 && ratio > form.dualClip;
  const double used = out.high   ? highest
                      : out.low  ? lowest
                      : out.dual ? form.dualClip
                                 : static_cast<double>(ratio);
  out.loss = -advantage * used;
  out.grad = out.high || out.low || out.dual || saturated ? 0.0 : static_cast<double>(-advantage * ratio);
  return out;
}

template <class Real>
__device__ Terms k25Terms(Real advantage, Real logRatio, Real ratio, bool saturated,
                          const ClipLossForm& form) {
  Terms out;
  out.low = logRatio < form.logAlpha;
  out.high = logRatio > form.logBeta;
  const bool inside = !out.low && !out.high;
  const double used = out.low    ? exp(form.logAlpha)
                      : out.high ? exp(form.logBeta)
                                 : static_cast<double>(ratio);
  out.loss = -advantage * used + form.tau * logRatio * logRatio;
  if (saturated) return out;
  if (inside) out.grad = -advantage * ratio;
  if (inside || !form.maskPenalty) out.grad += 2 * form.tau * logRatio;
  return out;
}

__device__ void addKl(Terms& terms, double difference, const ClipLossForm& form) {
  const double d = fmin(fmax(difference, -maxLogRatio), maxLogRatio);
  const double inside = fabs(difference) <= maxLogRatio ? form.klCoef : 0.0;
  if (form.klForm == k1) {
    terms.loss -= form.klCoef * d;
    terms.grad += inside;
  } else if (form.klForm == k2) {
    terms.loss += form.klCoef * d * d / 2;
    terms.grad -= inside * d;
  } else {
    terms.loss += form.klCoef * (expm1(d) - d);
    terms.grad -= inside * expm1(d);
  }
}

// NaN passes through.
template <class Real>
__device__ Real clamped(Real x) {
  const Real limit = static_cast<Real>(maxLogRatio);
  return x < -limit ? -limit : x > limit ? limit : x;
}

template <class Real>
__device__ void addToken(Sums& sums, int64_t i, const ClipLoss& p) {
  const auto value = [i](const void* x) { return as<Real>(x)[i]; };
  const Real logp = value(p.logp), raw = logp - value(p.logpOld), logRatio = clamped(raw),
             ratio = exp(logRatio);
  const bool saturated = fabs(static_cast<double>(raw)) > maxLogRatio;
  const Real advantage =
      p.correction == nullptr ? value(p.advantages) : value(p.advantages) * value(p.correction);
  Terms terms = p.form.k25 ? k25Terms(advantage, logRatio, ratio, saturated, p.form)
                           : ppoTerms(advantage, ratio, saturated, p.form);
  if (p.logpRef != nullptr && p.form.klCoef != 0) {
    addKl(terms, static_cast<double>(value(p.logpRef)) - static_cast<double>(logp), p.form);
  }
  const double scale = p.scales[i / p.tokens];
  const double factor = p.weights == nullptr ? scale : scale * static_cast<double>(value(p.weights));
  const double loss = factor * terms.loss;
  if (p.gradLogp != nullptr) as<Real>(p.gradLogp)[i] = static_cast<Real>(factor * terms.grad);
  double token[clipLossSums] = {loss,
                                1,
                                static_cast<double>(terms.low),
                                static_cast<double>(terms.high),
                                static_cast<double>(terms.dual),
                                -static_cast<double>(logRatio),
                                expm1(static_cast<double>(logRatio)) - static_cast<double>(logRatio),
                                -static_cast<double>(logp),
                                static_cast<double>(ratio),
                                static_cast<double>(ratio) * static_cast<double>(ratio),
                                fabs(static_cast<double>(raw)),
                                isfinite(loss) ? INFINITY : static_cast<double>(i)};
  sums.add(token);
}

template <class Real>
__global__ void __launch_bounds__(blockThreads) tokensKernel(const ClipLoss p) {
  const int64_t count = p.rows * p.tokens, first = static_cast<int64_t>(blockIdx.x) * clipLossBlock;
  const int64_t last = min(first + clipLossBlock, count);
  Sums sums;
  for (int64_t i = first + threadIdx.x; i < last; i += blockThreads) {
    if (p.mask != nullptr && !p.mask[i]) {
      if (p.gradLogp != nullptr) as<Real>(p.gradLogp)[i] = 0;
    } else {
      addToken<Real>(sums, i, p);
    }
  }
  storeTotal(sums, p.partials + blockIdx.x * clipLossSums);
}

__global__ void __launch_bounds__(blockThreads) totalKernel(const ClipLoss p) {
  const int64_t blocks = (p.rows * p.tokens + clipLossBlock - 1) / clipLossBlock;
  Sums sums;
  for (int64_t block = threadIdx.x; block < blocks; block += blockThreads)
    sums.add(p.partials + block * clipLossSums);
  storeTotal(sums, p.sums);
}

template <class Real>
void launchAll(const ClipLoss& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((p.rows * p.tokens + clipLossBlock - 1) / clipLossBlock);
  if (p.rows > 0) start(rowsKernel<Real>, static_cast<unsigned>(p.rows), blockThreads, stream, p);
  start(scalesKernel, 1, blockThreads, stream, p);
  if (blocks > 0) start(tokensKernel<Real>, blocks, blockThreads, stream, p);
  start(totalKernel, 1, blockThreads, stream, p);
}

}  // namespace

cudaError_t launch(const ClipLoss& p, cudaStream_t stream) {
  if (p.f64) {
    launchAll<double>(p, stream);
  } else {
    launchAll<float>(p, stream);
  }
  return cudaGetLastError();
}

}  // namespace aegir::cuda
