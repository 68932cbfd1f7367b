// Runs the kernels on a CPU, block after block, the threads of a block as coroutines that change places at
// barriers of the block or of their warp: kernels are checked where there is no GPU. It says nothing about
// speed. Each warp runs as far as it can before the next one, in every second block from the last to the
// first: where a barrier is missing, one of the two reads what has not been written. Compiled in place of the
// toolkit's header, with AEGIR_CUDA_EMULATION.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#define __device__
#define __global__
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __shared__ static  // one block runs at a time

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

struct float2 {
  float x, y;
};
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

constexpr unsigned warpThreads = 32;

class Block {
 public:
  void run(unsigned threads, const std::function<void()>& kernel) {
    kernel_ = &kernel;
    fibers_.resize(threads);
    for (Fiber& fiber : fibers_) {
      fiber.stack.resize(stackBytes);
      fiber.done = false;
      fiber.waitsAt = nullptr;
      fiber.exchanges = 0;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = stackBytes;
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::enter, 0);
    }
    block_ = {0, threads, 0, threads};
    warps_.clear();
    for (unsigned first = 0; first < threads; first += warpThreads) {
      const unsigned count = std::min(warpThreads, threads - first);
      warps_.push_back({first, count, 0, count});
    }
    while (block_.running > 0) {
      bool moved = false;
      for (size_t i = 0; i < warps_.size(); ++i) {
        const Barrier& warp = warps_[backwards() ? warps_.size() - 1 - i : i];
        while (round(warp)) moved = true;
      }
      if (!moved) stuck();
    }
  }

  void syncBlock() { wait(block_); }
  void syncWarp() { wait(warps_[threadIdx.x / warpThreads]); }
  unsigned countExchange() { return fibers_[threadIdx.x].exchanges++; }

  static Block& current() {
    static Block block;
    return block;
  }

 private:
  struct Barrier {
    unsigned first, count;  // its threads
    unsigned waiting, running;
  };
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done = false;
    const Barrier* waitsAt = nullptr;
    unsigned exchanges = 0;  // with the other lanes
  };

  static bool backwards() { return blockIdx.x % 2 == 1; }

  // Takes every thread of a warp that need not wait to its next barrier; false where all wait or are done.
  bool round(const Barrier& warp) {
    bool moved = false;
    for (unsigned i = 0; i < warp.count; ++i) {
      const unsigned thread = warp.first + (backwards() ? warp.count - 1 - i : i);
      Fiber& fiber = fibers_[thread];
      if (fiber.done || fiber.waitsAt != nullptr) continue;
      threadIdx.x = thread;
      swapcontext(&scheduler_, &fiber.context);
      moved = true;
    }
    return moved;
  }

  void wait(Barrier& barrier) {
    Fiber& self = fibers_[threadIdx.x];
    self.waitsAt = &barrier;
    ++barrier.waiting;
    release(barrier);
    if (self.waitsAt != nullptr) swapcontext(&self.context, &scheduler_);
  }

  void release(Barrier& barrier) {
    if (barrier.waiting < barrier.running) return;
    barrier.waiting = 0;
    for (unsigned i = barrier.first; i < barrier.first + barrier.count; ++i) {
      if (fibers_[i].waitsAt == &barrier) fibers_[i].waitsAt = nullptr;
    }
  }

  // A thread that has returned is not waited for.
  void finish() {
    fibers_[threadIdx.x].done = true;
    for (Barrier* barrier : {&block_, &warps_[threadIdx.x / warpThreads]}) {
      --barrier->running;
      release(*barrier);
    }
  }

  static void enter() {
    (*current().kernel_)();
    current().finish();
  }

  [[noreturn]] static void stuck() {
    std::fprintf(stderr, "emulated CUDA: block %u waits at barriers that not all of its threads reach\n",
                 blockIdx.x);
    std::abort();
  }

  static constexpr size_t stackBytes = 256 << 10;
  const std::function<void()>* kernel_ = nullptr;
  std::vector<Fiber> fibers_;
  Barrier block_{};
  std::vector<Barrier> warps_;
  ucontext_t scheduler_;
};

}  // namespace aegir::cuda::emulation

inline void __syncthreads() { aegir::cuda::emulation::Block::current().syncBlock(); }
inline void __syncwarp() { aegir::cuda::emulation::Block::current().syncWarp(); }

// What each lane of the warp gives, by lane; good until the warp's next call.
template <class Value>
const Value* emulatedLanes(const Value& own) {
  static Value values[2][1024];
  const unsigned self = threadIdx.x;
  Value* const all = values[aegir::cuda::emulation::Block::current().countExchange() % 2];
  all[self] = own;
  __syncwarp();
  return all + self / 32 * 32;
}

// What another lane of the warp holds. Called by all threads of a warp together.
inline float emulatedShuffle(float value, unsigned from) {
  const float* lanes = emulatedLanes(value);
  return from / 32 == threadIdx.x / 32 ? lanes[from % 32] : value;
}
inline float __shfl_sync(unsigned, float value, int lane) {
  return emulatedShuffle(value, threadIdx.x / 32 * 32 + lane);
}
inline float __shfl_down_sync(unsigned, float value, int distance) {
  return emulatedShuffle(value, threadIdx.x + distance);
}
inline float __shfl_xor_sync(unsigned, float value, int mask) {
  return emulatedShuffle(value, threadIdx.x ^ mask);
}
inline float __fdividef(float x, float y) { return x / y; }
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
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
