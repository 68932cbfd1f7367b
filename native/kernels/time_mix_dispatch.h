// Shared by the files that run the time-mix kernels: the choice of instruction set and type, the split of
// work over threads, the sums of parameter gradients.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <initializer_list>

#include "native/core/error.h"
#include "native/kernels/simd_level.h"
#include "native/kernels/time_mix_kernel.h"

namespace aegir::kernels {

inline const TimeMixTables& timeMixTables() { return chosenTables(timeMixSse2, timeMixAvx2, timeMixAvx512); }

template <class Real>
const TimeMixKernels<Real>& timeMixKernelsOf() {
  return kernelsFor<Real>(timeMixTables());
}

// All tensors f32 or all f64 on the CPU, and `width` a multiple of the vector width.
inline bool kernelsServe(std::initializer_list<at::Tensor> tensors, int64_t width) {
  const at::ScalarType type = tensors.begin()->scalar_type();
  if (type != at::kFloat && type != at::kDouble) return false;
  for (const at::Tensor& x : tensors) {
    if (x.defined() && (x.scalar_type() != type || !x.device().is_cpu())) return false;
  }
  return width % (type == at::kDouble ? timeMixTables().f64.lanes : timeMixTables().f32.lanes) == 0;
}

// work(float{}) or work(double{}).
template <class Work>
void withReal(const at::Tensor& x, const Work& work) {
  if (x.scalar_type() == at::kDouble) {
    work(double{});
  } else {
    work(float{});
  }
}

template <class Real>
const Real* pointerAt(const at::Tensor& x, int64_t offset = 0) {
  return x.defined() ? x.const_data_ptr<Real>() + offset : nullptr;
}
template <class Real>
Real* mutableAt(const at::Tensor& x, int64_t offset = 0) {
  return x.mutable_data_ptr<Real>() + offset;
}

inline at::Tensor emptyAs(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

// One block of rows per thread, work(block, begin, end); the same blocks for the same number of threads, so
// sums do not depend on timing.
template <class Work>
void forEachBlock(int64_t rows, int64_t blocks, const Work& work) {
  at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      work(block, rows * block / blocks, rows * (block + 1) / blocks);
    }
  });
}

// Elements of a tensor that are worth a second thread.
constexpr int64_t elementsPerThread = 1 << 15;

// Not worth a second thread under `perThread` rows.
inline int64_t blockCount(int64_t rows, int64_t perThread) {
  return std::clamp<int64_t>(rows / std::max<int64_t>(perThread, 1), 1, at::get_num_threads());
}

inline void refuseSecondDerivative(const char* name) {
  check(!at::GradMode::is_enabled(), ErrorCode::Argument, name,
        ": differentiable once; a backward pass that builds a graph of its own is not supported");
}

}  // namespace aegir::kernels
