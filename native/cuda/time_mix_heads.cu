// The time-mix operators over heads (native/kernels/time_mix.h): a warp per row and head, a lane per 1, 2 or
// 4 channels. A block keeps to one head and a run of rows, whose parameter gradients it adds up.
#include "native/cuda/device_code.h"
#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

constexpr int warpLanes = 32, warps = 4, blockThreads = warps * warpLanes;

// The sum over a warp, in every lane.
__device__ float sumOfWarp(float value) {
#pragma unroll
  for (int distance = warpLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

template <int E>
struct Place {
  int64_t width, channel;  // of the lane's first channel; the others lie 32 apart
  int64_t first, last;     // rows of the block
  int warp;

  __device__ Place(int64_t rows, int64_t heads, int64_t runs)
      : width(heads * E * warpLanes),
        channel(blockIdx.x % heads * E * warpLanes + threadIdx.x % warpLanes),
        first(rows * (blockIdx.x / heads) / runs),
        last(rows * (blockIdx.x / heads + 1) / runs),
        warp(threadIdx.x / warpLanes) {}
};

// The lane's channels of a row; zeros where the row is past the block's last.
template <int E>
struct Values {
  float at[E];
  __device__ Values() {
    for (int e = 0; e < E; ++e) at[e] = 0;
  }
  __device__ Values(const float* from, int64_t offset, bool inside) {
#pragma unroll
    for (int e = 0; e < E; ++e) at[e] = inside ? from[offset + e * warpLanes] : 0.0f;
  }
  __device__ float operator[](int e) const { return at[e]; }
  __device__ float& operator[](int e) { return at[e]; }
};

// Adds up what the block's warps hold and writes it as one row of partial sums.
template <int E>
__device__ void storeSums(const Values<E>& sums, float* to, const Place<E>& place) {
  __shared__ float shared[warps][E * warpLanes];
  const int lane = threadIdx.x % warpLanes;
  __syncthreads();
#pragma unroll
  for (int e = 0; e < E; ++e) shared[place.warp][e * warpLanes + lane] = sums[e];
  __syncthreads();
  if (place.warp != 0) return;
#pragma unroll
  for (int e = 0; e < E; ++e) {
    float total = 0;
    for (int w = 0; w < warps; ++w) total += shared[w][e * warpLanes + lane];
    to[place.channel + e * warpLanes] = total;
  }
}

constexpr float smallestNorm = 1e-12f;

// 1 / |k kK| over the head.
template <int E>
__device__ float inverseNorm(const Values<E>& k, const Values<E>& kK, bool& clamped) {
  float squares = 0;
#pragma unroll
  for (int e = 0; e < E; ++e) squares += k[e] * kK[e] * k[e] * kK[e];
  const float norm = sqrtf(sumOfWarp(squares));
  clamped = norm < smallestNorm;
  return 1.0f / (clamped ? smallestNorm : norm);
}

template <int E>
__global__ void __launch_bounds__(blockThreads) keyNormKernel(const KeyNorm p) {
  const Place<E> place(p.rows, p.heads, p.runs);
  const Values<E> kK(p.kK, place.channel, true), kA(p.kA, place.channel, true);
  for (int64_t first = place.first; first < place.last; first += warps) {
    const int64_t row = first + place.warp, at = row * place.width + place.channel;
    const bool inside = row < place.last;
    const Values<E> k(p.k, at, inside), logits(p.aLogits, at, inside);
    bool clamped;
    const float scale = inverseNorm(k, kK, clamped);
    if (!inside) continue;
#pragma unroll
    for (int e = 0; e < E; ++e) {
      const float a = sigmoid(logits[e]), kk = k[e] * kK[e] * scale;
      p.key[at + e * warpLanes] = k[e] + k[e] * kA[e] * (a - 1);
      p.removal[at + e * warpLanes] = -kk;
      p.gated[at + e * warpLanes] = kk * a;
    }
  }
}

template <int E>
__global__ void __launch_bounds__(blockThreads) keyNormBackwardKernel(const KeyNormBackward p) {
  const Place<E> place(p.rows, p.heads, p.runs);
  const Values<E> kK(p.kK, place.channel, true), kA(p.kA, place.channel, true);
  Values<E> sumKK, sumKA;
  for (int64_t first = place.first; first < place.last; first += warps) {
    const int64_t row = first + place.warp, at = row * place.width + place.channel;
    const bool inside = row < place.last;
    const Values<E> k(p.k, at, inside), logits(p.aLogits, at, inside), gradKey(p.gradKey, at, inside),
        gradRemoval(p.gradRemoval, at, inside), gradGated(p.gradGated, at, inside);
    bool clamped;
    const float scale = inverseNorm(k, kK, clamped);
    float along = 0;
#pragma unroll
    for (int e = 0; e < E; ++e) {
      along += k[e] * kK[e] * scale * (gradGated[e] * sigmoid(logits[e]) - gradRemoval[e]);
    }
    const float sum = sumOfWarp(along), radial = clamped ? 0.0f : sum;  // a clamped norm is a constant
#pragma unroll
    for (int e = 0; e < E; ++e) {
      const float a = sigmoid(logits[e]), kk = k[e] * kK[e] * scale;
      const float gradScaled = (gradGated[e] * a - gradRemoval[e] - kk * radial) * scale;
      sumKK[e] += gradScaled * k[e];
      sumKA[e] += gradKey[e] * k[e] * (a - 1);
      if (!inside) continue;
      p.gradALogits[at + e * warpLanes] = (gradGated[e] * kk + gradKey[e] * k[e] * kA[e]) * a * (1 - a);
      p.gradK[at + e * warpLanes] = gradKey[e] + gradKey[e] * kA[e] * (a - 1) + gradScaled * kK[e];
    }
  }
  float* sums = p.gradVectors + blockIdx.x / p.heads * 2 * place.width;
  storeSums(sumKK, sums, place);
  storeSums(sumKA, sums + place.width, place);
}

struct Moments {
  float mean, scale, bonus;  // scale: 1 / standard deviation; bonus: sum of r k rK
};

template <int E>
__device__ Moments momentsOf(const Values<E>& o, const Values<E>& r, const Values<E>& k,
                             const Values<E>& rK) {
  constexpr float n = E * warpLanes;
  float sum = 0, bonus = 0, squares = 0;
#pragma unroll
  for (int e = 0; e < E; ++e) {
    sum += o[e];
    bonus += r[e] * k[e] * rK[e];
  }
  const float mean = sumOfWarp(sum) / n;
#pragma unroll
  for (int e = 0; e < E; ++e) squares += (o[e] - mean) * (o[e] - mean);
  const float variance = sumOfWarp(squares) / n;
  return {mean, 1.0f / sqrtf(variance + n * 1e-5f), sumOfWarp(bonus)};
}

template <int E>
__global__ void __launch_bounds__(blockThreads) normBonusGateKernel(const NormBonusGate p) {
  const Place<E> place(p.rows, p.heads, p.runs);
  const Values<E> rK(p.rK, place.channel, true), gain(p.gain, place.channel, true),
      bias(p.bias, place.channel, true);
  for (int64_t first = place.first; first < place.last; first += warps) {
    const int64_t row = first + place.warp, at = row * place.width + place.channel;
    const bool inside = row < place.last;
    const Values<E> o(p.o, at, inside), r(p.r, at, inside), k(p.k, at, inside), v(p.v, at, inside),
        gate(p.gate, at, inside);
    const Moments moments = momentsOf(o, r, k, rK);
    if (!inside) continue;
#pragma unroll
    for (int e = 0; e < E; ++e) {
      const float normalised = (o[e] - moments.mean) * moments.scale;
      p.result[at + e * warpLanes] = (normalised * gain[e] + bias[e] + v[e] * moments.bonus) * gate[e];
    }
  }
}

template <int E>
__global__ void __launch_bounds__(blockThreads) normBonusGateBackwardKernel(const NormBonusGateBackward p) {
  constexpr float n = E * warpLanes;
  const Place<E> place(p.rows, p.heads, p.runs);
  const Values<E> rK(p.rK, place.channel, true), gain(p.gain, place.channel, true),
      bias(p.bias, place.channel, true);
  Values<E> sumRK, sumGain, sumBias;
  for (int64_t first = place.first; first < place.last; first += warps) {
    const int64_t row = first + place.warp, at = row * place.width + place.channel;
    const bool inside = row < place.last;
    const Values<E> o(p.o, at, inside), r(p.r, at, inside), k(p.k, at, inside), v(p.v, at, inside),
        gate(p.gate, at, inside), gradResult(p.gradResult, at, inside);
    const Moments moments = momentsOf(o, r, k, rK);
    float norm = 0, along = 0, bonus = 0;
    Values<E> normalised, grad;
#pragma unroll
    for (int e = 0; e < E; ++e) {
      normalised[e] = (o[e] - moments.mean) * moments.scale;
      grad[e] = gradResult[e] * gate[e];
      norm += grad[e] * gain[e];
      along += grad[e] * gain[e] * normalised[e];
      bonus += grad[e] * v[e];
    }
    const float meanNorm = sumOfWarp(norm) / n, meanAlong = sumOfWarp(along) / n,
                gradBonus = sumOfWarp(bonus);
#pragma unroll
    for (int e = 0; e < E; ++e) {
      sumRK[e] += r[e] * k[e] * gradBonus;
      sumGain[e] += grad[e] * normalised[e];
      sumBias[e] += grad[e];
      if (!inside) continue;
      const int64_t to = at + e * warpLanes;
      p.gradGate[to] = gradResult[e] * (normalised[e] * gain[e] + bias[e] + v[e] * moments.bonus);
      p.gradV[to] = grad[e] * moments.bonus;
      p.gradO[to] = (grad[e] * gain[e] - meanNorm - normalised[e] * meanAlong) * moments.scale;
      p.gradR[to] = k[e] * rK[e] * gradBonus;
      p.gradK[to] = r[e] * rK[e] * gradBonus;
    }
  }
  float* sums = p.gradVectors + blockIdx.x / p.heads * 3 * place.width;
  storeSums(sumRK, sums, place);
  storeSums(sumGain, sums + place.width, place);
  storeSums(sumBias, sums + 2 * place.width, place);
}

// The kernel for the head size: 32, 64 or 128.
template <class Arguments>
cudaError_t startFor(void (*one)(Arguments), void (*two)(Arguments), void (*four)(Arguments),
                     const std::remove_const_t<Arguments>& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(p.heads * p.runs);
  if (blocks == 0) return cudaSuccess;
  start(p.headSize == 32 ? one : p.headSize == 64 ? two : four, blocks, blockThreads, stream, p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch(const KeyNorm& p, cudaStream_t stream) {
  return startFor(keyNormKernel<1>, keyNormKernel<2>, keyNormKernel<4>, p, stream);
}
cudaError_t launch(const KeyNormBackward& p, cudaStream_t stream) {
  return startFor(keyNormBackwardKernel<1>, keyNormBackwardKernel<2>, keyNormBackwardKernel<4>, p, stream);
}
cudaError_t launch(const NormBonusGate& p, cudaStream_t stream) {
  return startFor(normBonusGateKernel<1>, normBonusGateKernel<2>, normBonusGateKernel<4>, p, stream);
}
cudaError_t launch(const NormBonusGateBackward& p, cudaStream_t stream) {
  return startFor(normBonusGateBackwardKernel<1>, normBonusGateBackwardKernel<2>,
                  normBonusGateBackwardKernel<4>, p, stream);
}

}  // namespace aegir::cuda
