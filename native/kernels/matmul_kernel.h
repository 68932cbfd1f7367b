// What matmul.cc hands to the kernels of one instruction set: raw pointers, strides in elements.
#pragma once

#include <cstdint>

namespace aegir::kernels {

// Rows of a token block in TransposedProduct.
constexpr int64_t transposedProductBlock = 128;
// Panel width and tile height are at most these, of any instruction set.
constexpr int64_t maxMatmulPanel = 32, maxMatmulTile = 12;

// w (depth, columns), element (i,j) at i * rowStride + j * columnStride, in panels of `panelWidth` columns,
// each (depth, panelWidth), the last filled up with zeros.
template <class Real>
struct PackPanels {
  int64_t depth, columns, rowStride, columnStride;
  const Real* w;
  Real* panels;  // (depth * columns, rounded up to whole panels)
};

// y (rows, columns) = addend + x (rows, depth) w
template <class Real>
struct PanelProduct {
  int64_t rows, depth, columns, xStride, addendStride, yStride;
  const Real *x, *panels;
  const Real* addend;  // null: zeros; a stride of 0 adds one row to all
  Real* y;
};

// result (left, right) = sum over tokens of x (tokens, left)^T y (tokens, right)
template <class Real>
struct TransposedProduct {
  int64_t tokens, left, right, xStride, yStride, resultStride;
  const Real *x, *y;
  Real* result;
  Real* scratch;  // transposedProductScratch(left, right) elements
};

constexpr int64_t transposedProductScratch(int64_t left, int64_t right) {
  return transposedProductBlock * (left + right + maxMatmulTile + maxMatmulPanel);
}

template <class Real>
struct MatmulKernels {
  int64_t panelWidth, tileRows;
  void (*packPanels)(const PackPanels<Real>&);
  void (*product)(const PanelProduct<Real>&);
  void (*transposedProduct)(const TransposedProduct<Real>&);
};

struct MatmulTables {
  MatmulKernels<float> f32;
  MatmulKernels<double> f64;
};

extern const MatmulTables matmulSse2, matmulAvx2, matmulAvx512;

}  // namespace aegir::kernels
