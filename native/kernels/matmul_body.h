// Products of many rows with a small matrix. The matrix is packed into panels as wide as two vectors; a tile
// of rows times panel stays in registers through the whole depth, and the rows are read where they lie: at
// the widths of these models packing them, as a general sgemm does, costs a fifth of the product.
#pragma once

#include "native/kernels/matmul_kernel.h"
#include "native/kernels/simd.h"

namespace aegir::kernels::AEGIR_ISA {

constexpr int64_t panelVectors = 2;
// Sums, a row of the panel and one broadcast fill the registers (16, AVX-512 32).
constexpr int64_t tileRows = AEGIR_VECTOR_BYTES == 64 ? 12 : 6;
template <class Real>
constexpr int64_t panelWidth = panelVectors * lanes<Real>;

// Rows whose part of x stays in the second-level cache while all panels pass, and depth of a panel in the
// first.
constexpr int64_t rowBlock = 96, depthBlock = 256;

// y (rows, panelWidth) = initial + x (rows, depth) panel. Element (i,k) of x lies at i * rowStride + k *
// depthStride.
template <class Real, int64_t rows>
AEGIR_INLINE void multiplyTile(int64_t depth, const Real* __restrict x, int64_t rowStride,
                               int64_t depthStride, const Real* __restrict panel, const Real* initial,
                               int64_t initialStride, Real* y, int64_t yStride) {
  Vector<Real> sums[rows][panelVectors];
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t v = 0; v < panelVectors; ++v) {
      sums[i][v] = initial ? load(initial + i * initialStride + v * lanes<Real>) : Vector<Real>{};
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vector<Real> right[panelVectors];
    for (int64_t v = 0; v < panelVectors; ++v) right[v] = load(panel + (k * panelVectors + v) * lanes<Real>);
#pragma GCC unroll 12
    for (int64_t i = 0; i < rows; ++i) {
      const Vector<Real> left = broadcast(x[i * rowStride + k * depthStride]);
      for (int64_t v = 0; v < panelVectors; ++v) sums[i][v] += left * right[v];
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t v = 0; v < panelVectors; ++v) store(y + i * yStride + v * lanes<Real>, sums[i][v]);
  }
}

template <class Real>
struct Tile {
  int64_t depth;
  const Real* x;
  int64_t rowStride, depthStride;
  const Real* panel;
  const Real* initial;  // null: zeros
  int64_t initialStride;
  Real* y;
  int64_t yStride, columns;
};

template <class Real, int64_t rows>
void multiply(const Tile<Real>& tile) {
  constexpr int64_t width = panelWidth<Real>;
  if (tile.columns == width) {
    multiplyTile<Real, rows>(tile.depth, tile.x, tile.rowStride, tile.depthStride, tile.panel, tile.initial,
                             tile.initialStride, tile.y, tile.yStride);
    return;
  }
  // The last panel of a matrix: through a whole tile beside it.
  Real whole[rows * width] = {};
  for (int64_t i = 0; tile.initial && i < rows; ++i) {
    for (int64_t j = 0; j < tile.columns; ++j)
      whole[i * width + j] = tile.initial[i * tile.initialStride + j];
  }
  multiplyTile<Real, rows>(tile.depth, tile.x, tile.rowStride, tile.depthStride, tile.panel, whole, width,
                           whole, width);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < tile.columns; ++j) tile.y[i * tile.yStride + j] = whole[i * width + j];
  }
}

// `rows` rows by whole tiles, then by halves.
template <class Real, int64_t height = tileRows>
AEGIR_INLINE void multiplyRows(Tile<Real> tile, int64_t rows) {
  while (rows >= height) {
    multiply<Real, height>(tile);
    rows -= height;
    tile.x += height * tile.rowStride;
    tile.y += height * tile.yStride;
    if (tile.initial) tile.initial += height * tile.initialStride;
  }
  if constexpr (height > 1) multiplyRows<Real, height / 2>(tile, rows);
}

AEGIR_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

template <class Real>
void packPanels(const PackPanels<Real>& p) {
  constexpr int64_t width = panelWidth<Real>;
  for (int64_t first = 0; first < p.columns; first += width) {
    const int64_t columns = smaller(width, p.columns - first);
    Real* panel = p.panels + first * p.depth;
    const Real* from = p.w + first * p.columnStride;
    for (int64_t k = 0; k < p.depth; ++k) {
      for (int64_t j = 0; j < columns; ++j) panel[k * width + j] = from[k * p.rowStride + j * p.columnStride];
      for (int64_t j = columns; j < width; ++j) panel[k * width + j] = 0;
    }
  }
}

template <class Real>
void product(const PanelProduct<Real>& p) {
  constexpr int64_t width = panelWidth<Real>;
  for (int64_t row = 0; row < p.rows; row += rowBlock) {
    const int64_t rows = smaller(rowBlock, p.rows - row);
    for (int64_t k = 0; k < p.depth; k += depthBlock) {
      const int64_t depth = smaller(depthBlock, p.depth - k);
      for (int64_t column = 0; column < p.columns; column += width) {
        Real* y = p.y + row * p.yStride + column;
        const Real* addend = p.addend ? p.addend + row * p.addendStride + column : nullptr;
        multiplyRows<Real>(
            {depth, p.x + row * p.xStride + k, p.xStride, 1, p.panels + column * p.depth + k * width,
             k > 0 ? y : addend, k > 0 ? p.yStride : p.addendStride, y, p.yStride,
             smaller(width, p.columns - column)},
            rows);
      }
    }
  }
}

// (tokens, columns) in groups of `width` columns, each (tokens, width), the last filled up with zeros. A few
// tokens at a time: groups lie a power of two apart, and lines of all of them would evict each other.
template <class Real, int64_t width>
void packColumns(const Real* from, int64_t stride, int64_t tokens, int64_t columns, Real* to) {
  constexpr int64_t few = 8;
  for (int64_t first = 0; first < tokens; first += few) {
    const int64_t last = smaller(first + few, tokens);
    int64_t column = 0;
    for (; column + width <= columns; column += width) {
      Real* group = to + column * transposedProductBlock;
      for (int64_t t = first; t < last; ++t) {
        __builtin_memcpy(group + t * width, from + t * stride + column, width * sizeof(Real));
      }
    }
    for (int64_t t = first; column < columns && t < last; ++t) {
      for (int64_t j = 0; j < width; ++j) {
        to[column * transposedProductBlock + t * width + j] =
            column + j < columns ? from[t * stride + column + j] : Real(0);
      }
    }
  }
}

template <class Real>
void transposedProduct(const TransposedProduct<Real>& p) {
  constexpr int64_t width = panelWidth<Real>, block = transposedProductBlock;
  Real* left = p.scratch;
  Real* right = left + block * ((p.left + tileRows - 1) / tileRows * tileRows);
  for (int64_t token = 0; token < p.tokens; token += block) {
    const int64_t tokens = smaller(block, p.tokens - token);
    packColumns<Real, tileRows>(p.x + token * p.xStride, p.xStride, tokens, p.left, left);
    packColumns<Real, width>(p.y + token * p.yStride, p.yStride, tokens, p.right, right);
    for (int64_t column = 0; column < p.right; column += width) {
      for (int64_t row = 0; row < p.left; row += tileRows) {
        Real* result = p.result + row * p.resultStride + column;
        multiplyRows<Real>(
            {tokens, left + row * block, 1, tileRows, right + column * block, token > 0 ? result : nullptr,
             p.resultStride, result, p.resultStride, smaller(width, p.right - column)},
            smaller(tileRows, p.left - row));
      }
    }
  }
}

template <class Real>
constexpr MatmulKernels<Real> matmulKernels = {panelWidth<Real>, tileRows, packPanels<Real>, product<Real>,
                                               transposedProduct<Real>};

}  // namespace aegir::kernels::AEGIR_ISA

namespace aegir::kernels {

static_assert(AEGIR_ISA::panelWidth<float> <= maxMatmulPanel && AEGIR_ISA::tileRows <= maxMatmulTile);

const MatmulTables AEGIR_MATMUL_TABLE = {AEGIR_ISA::matmulKernels<float>, AEGIR_ISA::matmulKernels<double>};

}  // namespace aegir::kernels
