// The forward pass of WKV-7. The state is kept transposed in tiles, [tile of value rows][key column][lanes =
// value rows], so that products of the state with vectors are sums of whole vectors. Tokens go in blocks
// (wkv7_block_body.h).
#pragma once

#include "native/kernels/wkv7_block_body.h"

namespace aegir::kernels::AEGIR_ISA {

// Vectors of value rows a tile: a sum or a vector a token of each stays in registers (16, AVX-512 32).
constexpr int64_t forwardTileVectors = 2;

// S = S diag(scale) + sum_i y_i x_i^T; without `scaled` the scale is 1.
template <class Real, int64_t C, int64_t width, bool scaled>
AEGIR_INLINE void updateTile(Real* __restrict tile, const Real* __restrict scale,
                             const Vector<Real> (&y)[C][width], const Real* __restrict x, int64_t n,
                             int64_t padded) {
  for (int64_t j = 0; j < n; ++j) {
    Vector<Real> s[width];
#pragma GCC unroll 4
    for (int64_t w = 0; w < width; ++w) s[w] = load(tile + (j * width + w) * lanes<Real>);
    if constexpr (scaled) {
      const Vector<Real> factor = broadcast(scale[j]);
#pragma GCC unroll 4
      for (int64_t w = 0; w < width; ++w) s[w] *= factor;
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < C; ++i) {
      const Vector<Real> xj = broadcast(x[i * padded + j]);
#pragma GCC unroll 4
      for (int64_t w = 0; w < width; ++w) s[w] += y[i][w] * xj;
    }
#pragma GCC unroll 4
    for (int64_t w = 0; w < width; ++w) store(tile + (j * width + w) * lanes<Real>, s[w]);
  }
}

// A block over the tile of value rows that starts at `row`.
template <class Storage, class Real, int64_t C, int64_t width>
void forwardBlock(const Wkv7Forward<Storage, Real>& head, int64_t token, int64_t row, Real* tile,
                  int64_t padded, const Block<Real>& block) {
  const int64_t n = head.headSize;
  Vector<Real> u[C][width], y[C][width], v[C][width];
  weightedSums(tile, width * lanes<Real>, block.a, n, padded, u);
  weightedSums(tile, width * lanes<Real>, block.r, n, padded, y);
#pragma GCC unroll 4
  for (int64_t i = 0; i < C; ++i) {
#pragma GCC unroll 4
    for (int64_t w = 0; w < width; ++w) {
      const int64_t from = row + w * lanes<Real>, at = (token + i) * head.stride + from, count = n - from;
      v[i][w] = loadPart<Real>(head.v + at, count);
#pragma GCC unroll 4
      for (int64_t m = 0; m < i; ++m) {
        u[i][w] += broadcast(block.factors[factorAK(i, m)]) * v[m][w];
        u[i][w] += broadcast(block.factors[factorAB(i, m)]) * u[m][w];
      }
#pragma GCC unroll 4
      for (int64_t m = 0; m <= i; ++m) {
        y[i][w] += broadcast(block.factors[factorRK(i, m)]) * v[m][w];
        y[i][w] += broadcast(block.factors[factorRB(i, m)]) * u[m][w];
      }
      storePart<Real>(head.output + at, y[i][w], count);
      if (head.stateTimesA != nullptr) storePart<Real>(head.stateTimesA + at, u[i][w], count);
    }
  }
  updateTile<Real, C, width, true>(tile, block.decay, v, block.k, n, padded);
  updateTile<Real, C, width, false>(tile, nullptr, u, block.b, n, padded);
}

// Calls visit(row, vectors) for each tile of value rows: wide ones, then single vectors.
template <class Real, class Visit>
AEGIR_INLINE void forEachTile(int64_t padded, const Visit& visit) {
  constexpr int64_t wide = forwardTileVectors * lanes<Real>;
  int64_t row = 0;
  for (; row + wide <= padded; row += wide) visit(row, forwardTileVectors);
  for (; row < padded; row += lanes<Real>) visit(row, int64_t{1});
}

// Between (N,N) row-major and tiles. Element (i,j) of a tile that starts at `row` lies at row * padded + j *
// height + i - row.
template <class Real>
void stateToTiles(const Real* state, Real* tiles, int64_t headSize, int64_t padded) {
  forEachTile<Real>(padded, [&](int64_t row, int64_t vectors) {
    const int64_t height = vectors * lanes<Real>;
    for (int64_t i = row; i < row + height; ++i) {
      for (int64_t j = 0; j < padded; ++j) {
        const bool inside = state != nullptr && i < headSize && j < headSize;
        tiles[row * padded + j * height + i - row] = inside ? state[i * headSize + j] : Real(0);
      }
    }
  });
}

template <class Real>
void tilesToState(const Real* tiles, Real* state, int64_t headSize, int64_t padded) {
  forEachTile<Real>(padded, [&](int64_t row, int64_t vectors) {
    const int64_t height = vectors * lanes<Real>;
    for (int64_t i = row; i < row + height; i += lanes<Real>) {
      for (int64_t j = 0; j < padded; j += lanes<Real>) {
        Vector<Real> square[lanes<Real>];
        for (int64_t l = 0; l < lanes<Real>; ++l)
          square[l] = load(tiles + row * padded + (j + l) * height + i - row);
        transpose<Real>(square);
        for (int64_t l = 0; l < lanes<Real> && i + l < headSize; ++l) {
          Real* to = state + (i + l) * headSize + j;
          if (j + lanes<Real> <= headSize) {
            store(to, square[l]);
          } else {
            for (int64_t c = 0; j + c < headSize; ++c) to[c] = square[l][c];
          }
        }
      }
    }
  });
}

template <class Storage, class Real>
void forwardHead(const Wkv7Forward<Storage, Real>& head) {
  const int64_t n = head.headSize, padded = roundUpToLanes<Real>(n);
  Real* tiles = head.scratch;
  const Block<Real> block = blockIn(tiles + padded * padded, padded);
  stateToTiles(head.initialState, tiles, n, padded);
  for (int64_t start = 0; start < head.tokens; start += wkv7Chunk) {
    if (head.checkpoints != nullptr)
      tilesToState(tiles, head.checkpoints + start / wkv7Chunk * n * n, n, padded);
    forEachBlock(head.tokens - start < wkv7Chunk ? head.tokens - start : wkv7Chunk, [&](auto size, int64_t,
                                                                                        int64_t first) {
      constexpr int64_t C = size.value;
      const int64_t token = start + first, at = token * head.stride;
      for (int64_t t = token + blocksAhead * C; t < token + (blocksAhead + 1) * C && t < head.tokens; ++t) {
        for (const Storage* input : {head.r, head.decay, head.k, head.v, head.a, head.b})
          prefetchRowFar<false>(input + t * head.stride, n);
      }
      prepareBlock<Real, C>(BlockInput<Storage>{head.r + at, head.decay + at, head.k + at, head.a + at,
                                                head.b + at, head.stride, n},
                            padded, block);
      forEachTile<Real>(padded, [&](int64_t row, int64_t vectors) {
        Real* tile = tiles + row * padded;
        if (vectors == 1) {
          forwardBlock<Storage, Real, C, 1>(head, token, row, tile, padded, block);
        } else {
          forwardBlock<Storage, Real, C, forwardTileVectors>(head, token, row, tile, padded, block);
        }
      });
    });
  }
  tilesToState(tiles, head.finalState, n, padded);
}

}  // namespace aegir::kernels::AEGIR_ISA
