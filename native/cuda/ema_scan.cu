// The EMA scan (native/kernels/ema_scan.h): one thread per sequence and column, tokens one after another.
#include "native/cuda/device_code.h"
#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

// The sequence and the column of a thread; blocks of a sequence lie together.
struct Place {
  int64_t sequence, column;
};
__device__ Place placeOfThread(int64_t width) {
  const int64_t blocks = (width + emaScanBlock - 1) / emaScanBlock;
  return {blockIdx.x / blocks, blockIdx.x % blocks * emaScanBlock + threadIdx.x};
}

template <class Stored>
__device__ float firstValue(const Stored* x, const float* initial, const Span& span, const Place& place,
                            int64_t width) {
  if (initial != nullptr) return initial[place.sequence * width + place.column];
  return span.length > 0 ? load(x, span.start * width + place.column) : 0.0f;
}

template <class Stored>
__global__ void __launch_bounds__(emaScanBlock) forwardKernel(const EmaScanForward p) {
  const Place place = placeOfThread(p.width);
  if (place.column >= p.width) return;
  const Span span = spanOf(p.layout, place.sequence);
  const Stored* x = as<Stored>(p.x);
  float y = firstValue(x, p.initial, span, place, p.width);
  for (int64_t t = span.start; t < span.start + span.length; ++t) {
    const int64_t at = t * p.width + place.column;
    y = p.p[t] * load(x, at) + (1 - p.p[t]) * y;
    store(as<Stored>(p.output), at, y);
  }
  p.final[place.sequence * p.width + place.column] = y;
}

__device__ float sumOfWarp(float value) {
  for (int distance = emaScanWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffff, value, distance);
  }
  return value;
}

// Threads past the width stay, because their warp adds up together; they read and write nothing.
template <class Stored>
__global__ void __launch_bounds__(emaScanBlock) backwardKernel(const EmaScanBackward p) {
  const Place place = placeOfThread(p.width);
  const bool inside = place.column < p.width;
  const Span span = spanOf(p.layout, place.sequence);
  const Stored *x = as<Stored>(p.x), *gradOutput = as<Stored>(p.gradOutput);
  const int64_t end = span.start + span.length, state = place.sequence * p.width + place.column;
  const float first = inside ? firstValue(x, p.initial, span, place, p.width) : 0;
  // The values again, rather than from the output, which a bf16 x would have rounded.
  float y = first;
  for (int64_t t = span.start; inside && t < end; ++t) {
    const int64_t at = t * p.width + place.column;
    y = p.p[t] * load(x, at) + (1 - p.p[t]) * y;
    p.values[at] = y;
  }
  float grad = inside ? p.grad[state] : 0;
  for (int64_t t = end - 1; t >= span.start; --t) {
    float part = 0;
    if (inside) {
      const int64_t at = t * p.width + place.column;
      const float before = t > span.start ? p.values[at - p.width] : first;
      const float g = grad + load(gradOutput, at);
      part = g * (load(x, at) - before);
      const bool startsFromX = t == span.start && p.initial == nullptr;  // y_{-1} = x_0
      store(as<Stored>(p.gradX), at, startsFromX ? g : p.p[t] * g);
      grad = (1 - p.p[t]) * g;
    }
    part = sumOfWarp(part);
    if (threadIdx.x % emaScanWarp == 0) p.gradPPartials[t * p.partials + place.column / emaScanWarp] = part;
  }
  if (inside) p.grad[state] = grad;
}

unsigned blocksOf(const Layout& layout, int64_t width) {
  return static_cast<unsigned>((width + emaScanBlock - 1) / emaScanBlock * layout.sequences);
}

}  // namespace

cudaError_t launch(const EmaScanForward& p, cudaStream_t stream) {
  const unsigned blocks = blocksOf(p.layout, p.width);
  if (blocks == 0) return cudaSuccess;
  return withStorage(p.storage, [&](auto stored) {
    start(forwardKernel<decltype(stored)>, blocks, emaScanBlock, stream, p);
  });
}

cudaError_t launch(const EmaScanBackward& p, cudaStream_t stream) {
  const unsigned blocks = blocksOf(p.layout, p.width);
  if (blocks == 0) return cudaSuccess;
  return withStorage(p.storage, [&](auto stored) {
    start(backwardKernel<decltype(stored)>, blocks, emaScanBlock, stream, p);
  });
}

}  // namespace aegir::cuda
