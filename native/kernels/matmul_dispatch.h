// Shared by the files that run the matrix kernels: the choice of instruction set and type, the split of work
// over threads.
#pragma once

#include "native/kernels/matmul_kernel.h"
#include "native/kernels/time_mix_dispatch.h"

namespace aegir::kernels {

template <class Real>
const MatmulKernels<Real>& matmulKernelsOf() {
  return kernelsFor<Real>(chosenTables(matmulSse2, matmulAvx2, matmulAvx512));
}

// Of a weight (depth, columns) in panels.
template <class Real>
int64_t panelElements(const MatmulKernels<Real>& kernels, int64_t depth, int64_t columns) {
  return depth * ((columns + kernels.panelWidth - 1) / kernels.panelWidth * kernels.panelWidth);
}

// Blocks of rows, or of units of `unit` rows, that are worth a thread each.
inline int64_t blocksFor(int64_t rows, int64_t depth, int64_t columns, int64_t unit) {
  constexpr int64_t multiplyAddsPerThread = 1 << 19;
  return std::min(blockCount(rows * depth * columns, multiplyAddsPerThread), (rows + unit - 1) / unit);
}

}  // namespace aegir::kernels
