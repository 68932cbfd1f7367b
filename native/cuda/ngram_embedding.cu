// n-gram embeddings (native/kernels/ngram_embedding.h): a thread per token hashes, a thread per value adds
// up.
#include "native/cuda/device_code.h"
#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

constexpr int blockThreads = 256;
constexpr uint64_t hashBase = 0x9e3779b97f4a7c15;
constexpr int64_t shapeSalt = 32;

__device__ int64_t threadNumber() { return static_cast<int64_t>(blockIdx.x) * blockThreads + threadIdx.x; }

__device__ uint64_t mix(uint64_t h) {
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccd;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53;
  return h ^ (h >> 33);
}

// The id i tokens before token t of a sequence that starts at row `start`, -1 where there is none.
__device__ int64_t idBefore(const NgramIds& p, int64_t sequence, int64_t start, int64_t t, int64_t i) {
  if (i <= t) return p.ids[start + t - i];
  const int64_t at = p.past + t - i;
  return p.history != nullptr && at >= 0 ? p.history[sequence * p.past + at] : -1;
}

// As native/kernels/ngram_hash.h.
__device__ int64_t shapeOf(int64_t id) {
  if (id >= '0' && id <= '9') return '9';
  if (id >= 'A' && id <= 'Z') return 'A';
  if (id >= 'a' && id <= 'z') return 'a';
  return id >= 128 && id < 256 ? 128 : id;
}

__device__ int64_t lowercase(int64_t id) { return id >= 'A' && id <= 'Z' ? id + ('a' - 'A') : id; }

__global__ void __launch_bounds__(blockThreads) bucketsKernel(const NgramBuckets p) {
  const int64_t row = threadNumber();
  if (row >= p.ids.tokens) return;
  const int64_t sequence = sequenceOf(p.ids.cuSeqlens, p.ids.sequences, row);
  const int64_t start = clampTo(p.ids.cuSeqlens[sequence], 0, row);
  for (int64_t view = 0; view < p.views; ++view) {
    uint64_t hash = 0, power = 1;
    int64_t read = 0;
    bool known = true;
    for (int64_t j = 0; j < p.sizeCount; ++j) {
      for (; known && read < p.sizes[j]; ++read, power *= hashBase) {
        const int64_t id = idBefore(p.ids, sequence, start, row - start, read);
        known = id >= 0;
        hash += (static_cast<uint64_t>(view > 0           ? shapeOf(id)
                                       : p.lowercase != 0 ? lowercase(id)
                                                          : id) +
                 1) *
                power;
      }
      const uint64_t bucket = mix(hash + static_cast<uint64_t>(p.sizes[j] + view * shapeSalt) * hashBase) %
                              static_cast<uint64_t>(p.buckets);
      p.result[(row * p.views + view) * p.sizeCount + j] = known ? static_cast<int64_t>(bucket) : -1;
    }
  }
}

__global__ void __launch_bounds__(blockThreads) historyKernel(const NgramHistory p) {
  const int64_t at = threadNumber(), past = p.ids.past;
  if (at >= p.ids.sequences * past) return;
  const int64_t sequence = at / past;
  const int64_t start = clampTo(p.ids.cuSeqlens[sequence], 0, p.ids.tokens);
  const int64_t length = clampTo(p.ids.cuSeqlens[sequence + 1], start, p.ids.tokens) - start;
  p.result[at] = idBefore(p.ids, sequence, start, length - 1, past - 1 - at % past);
}

template <class Real>
__global__ void __launch_bounds__(blockThreads) sumKernel(const NgramSum p) {
  const int64_t at = threadNumber(), token = at / p.width;
  if (token >= p.tokens) return;
  Real sum = 0;
  for (int64_t j = 0; j < p.sizeCount; ++j) {
    const int64_t bucket = p.buckets[token * p.sizeCount + j];
    if (bucket >= 0) sum += as<Real>(p.table)[bucket * p.width + at % p.width];
  }
  as<Real>(p.output)[at] = sum;
}

// The threads of the first n-gram of a row walk over the others.
template <class Real>
__global__ void __launch_bounds__(blockThreads) sumBackwardKernel(const NgramSumBackward p) {
  const int64_t at = threadNumber(), first = at / p.width, column = at % p.width;
  if (first >= p.entries) return;
  const int64_t bucket = p.sortedBuckets[first];
  if (bucket < 0 || (first > 0 && p.sortedBuckets[first - 1] == bucket)) return;
  Real sum = 0;
  for (int64_t i = first; i < p.entries && p.sortedBuckets[i] == bucket; ++i) {
    sum += as<Real>(p.gradOutput)[p.order[i] / p.sizeCount * p.width + column];
  }
  as<Real>(p.gradTable)[bucket * p.width + column] = sum;
}

template <class Arguments>
cudaError_t startThreads(void (*kernel)(Arguments), int64_t threads, cudaStream_t stream,
                         const std::remove_const_t<Arguments>& p) {
  const auto blocks = static_cast<unsigned>((threads + blockThreads - 1) / blockThreads);
  if (blocks > 0) start(kernel, blocks, blockThreads, stream, p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch(const NgramBuckets& p, cudaStream_t stream) {
  return startThreads(bucketsKernel, p.ids.tokens, stream, p);
}
cudaError_t launch(const NgramHistory& p, cudaStream_t stream) {
  return startThreads(historyKernel, p.ids.sequences * p.ids.past, stream, p);
}
cudaError_t launch(const NgramSum& p, cudaStream_t stream) {
  return startThreads(p.f64 ? sumKernel<double> : sumKernel<float>, p.tokens * p.width, stream, p);
}
cudaError_t launch(const NgramSumBackward& p, cudaStream_t stream) {
  return startThreads(p.f64 ? sumBackwardKernel<double> : sumBackwardKernel<float>, p.entries * p.width,
                      stream, p);
}

}  // namespace aegir::cuda
