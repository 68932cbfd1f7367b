// Runs the kernels on a CPU, block after block, the threads of a block as coroutines that change places at
// __syncthreads: kernels are checked where there is no GPU. It says nothing about speed, nor about races
// between barriers. Compiled in place of the toolkit's header, with AEGIR_CUDA_EMULATION.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#define __device__
#define __global__
#define __launch_bounds__(threads)
#define __align__(bytes) alignas(bytes)
#define __shared__ static  // one block runs at a time

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

struct float4 {
  float x, y, z, w;
};
struct EmulatedIndex {
  unsigned x = 0;
};
inline EmulatedIndex threadIdx, blockIdx;

using std::isfinite;
using std::max;
using std::min;
using std::sqrt;

namespace aegir::cuda::emulation {

class Block {
 public:
  void run(unsigned threads, const std::function<void()>& kernel) {
    kernel_ = &kernel;
    fibers_.resize(threads);
    for (Fiber& fiber : fibers_) {
      fiber.stack.resize(stackBytes);
      fiber.done = false;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = stackBytes;
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::enter, 0);
    }
    // Each round takes every thread to its next barrier.
    for (bool running = true; running;) {
      running = false;
      for (unsigned i = 0; i < threads; ++i) {
        if (fibers_[i].done) continue;
        threadIdx.x = i;
        swapcontext(&scheduler_, &fibers_[i].context);
        running = true;
      }
    }
  }

  void barrier() {
    const unsigned self = threadIdx.x;
    swapcontext(&fibers_[self].context, &scheduler_);
  }

  static Block& current() {
    static Block block;
    return block;
  }

 private:
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done = false;
  };

  static void enter() {
    Block& block = current();
    (*block.kernel_)();
    block.fibers_[threadIdx.x].done = true;
  }

  static constexpr size_t stackBytes = 256 << 10;
  const std::function<void()>* kernel_ = nullptr;
  std::vector<Fiber> fibers_;
  ucontext_t scheduler_;
};

}  // namespace aegir::cuda::emulation

inline void __syncthreads() { aegir::cuda::emulation::Block::current().barrier(); }

// What another lane of the warp holds. Called by all threads of a block together.
inline float emulatedShuffle(float value, unsigned from) {
  static float values[1024];
  values[threadIdx.x] = value;
  __syncthreads();
  const float result = from / 32 == threadIdx.x / 32 ? values[from] : value;
  __syncthreads();
  return result;
}
inline float __shfl_down_sync(unsigned, float value, int distance) {
  return emulatedShuffle(value, threadIdx.x + distance);
}
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  return emulatedShuffle(value, threadIdx.x ^ mask);
}

namespace aegir::cuda {

template <class Arguments>
void start(void (*kernel)(Arguments), unsigned blocks, unsigned threads, cudaStream_t,
           const std::remove_const_t<Arguments>& arguments) {
  for (unsigned block = 0; block < blocks; ++block) {
    blockIdx.x = block;
    emulation::Block::current().run(threads, [&] { kernel(arguments); });
  }
}

}  // namespace aegir::cuda
