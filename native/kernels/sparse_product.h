// Products of sparse rows (compressed sparse rows, CSR) with dense matrices, in the order and with the
// doubles that a plain loop would use: results do not depend on where they are computed.
#pragma once

#include <cstdint>

namespace aegir::kernels {

struct SparseRows {
  int64_t rows;
  const int32_t* starts;  // (rows + 1)
  const int32_t* indices;
  const float* values;
};

// Rows of the dense matrix lie anywhere in memory: they are fetched this many non-zero values ahead of their
// use.
constexpr int64_t sparseAhead = 8;

template <class Real>
void prefetchValues(const Real* from, int64_t count) {
  constexpr int64_t line = 64 / sizeof(Real);
  for (int64_t i = 0; i < count; i += line) __builtin_prefetch(from + i);
}

// into (rows,width) += X dense (columns,width)
template <class Real>
void sparseProduct(const SparseRows& x, const Real* dense, int64_t width, double* into) {
  const int64_t last = x.starts[x.rows];
  for (int64_t row = 0; row < x.rows; ++row) {
    double* sum = into + row * width;
    for (int32_t k = x.starts[row]; k < x.starts[row + 1]; ++k) {
      if (k + sparseAhead < last) prefetchValues(dense + x.indices[k + sparseAhead] * width, width);
      const Real* from = dense + x.indices[k] * width;
      const double value = x.values[k];
      for (int64_t c = 0; c < width; ++c) sum[c] += value * static_cast<double>(from[c]);
    }
  }
}

// into (columns,width) += Xᵀ dense (rows,width)
inline void sparseTransposedProduct(const SparseRows& x, const double* dense, int64_t width, double* into) {
  const int64_t last = x.starts[x.rows];
  for (int64_t row = 0; row < x.rows; ++row) {
    const double* from = dense + row * width;
    for (int32_t k = x.starts[row]; k < x.starts[row + 1]; ++k) {
      if (k + sparseAhead < last) prefetchValues(into + x.indices[k + sparseAhead] * width, width);
      double* sum = into + x.indices[k] * width;
      const double value = x.values[k];
      for (int64_t c = 0; c < width; ++c) sum[c] += value * from[c];
    }
  }
}

}  // namespace aegir::kernels
