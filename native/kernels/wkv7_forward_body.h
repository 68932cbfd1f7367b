// The forward pass of WKV-7. The state is kept transposed in tiles, [tile of value rows][key column][lanes =
// value rows], so that S a and S r are sums of whole vectors. One pass over a tile per token updates it,
// reads the output off and, with the next token's a, prepares the next token's S a.
#pragma once

#include "native/kernels/simd.h"
#include "native/kernels/wkv7_kernel.h"

namespace aegir::kernels::AEGIR_ISA {

// Vectors of value rows a tile: what keeps every accumulator in registers (16, AVX-512 32).
constexpr int64_t forwardTileVectors = AEGIR_VECTOR_BYTES == 64 ? 4 : 2;

// Rows of one chunk, each `padded` long, token by token; `a` and `stateTimesA` reach one token further.
template <class Real>
struct ForwardRows {
  Real *r, *decay, *k, *v, *a, *b, *output, *stateTimesA;
};

template <class Real, int64_t width>
void forwardTile(Real* __restrict tile, int64_t headSize, int64_t padded, int64_t tokens, int64_t row,
                 const ForwardRows<Real>& rows) {
  Vector<Real> stateTimesA[width];
  for (int64_t i = 0; i < width; ++i) stateTimesA[i] = load(rows.stateTimesA + row + i * lanes<Real>);
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t at = t * padded;
    const Real *r = rows.r + at, *decay = rows.decay + at, *k = rows.k + at, *b = rows.b + at;
    const Real* nextA = rows.a + at + padded;
    Vector<Real> v[width], output[width] = {}, nextTimesA[width] = {};
    for (int64_t i = 0; i < width; ++i) v[i] = load(rows.v + at + row + i * lanes<Real>);
    for (int64_t j = 0; j < headSize; ++j) {
      const Vector<Real> rj = broadcast(r[j]), decayj = broadcast(decay[j]), kj = broadcast(k[j]),
                         bj = broadcast(b[j]), aj = broadcast(nextA[j]);
      Real* column = tile + j * width * lanes<Real>;
      for (int64_t i = 0; i < width; ++i) {
        Vector<Real> s = load(column + i * lanes<Real>) * decayj;
        s += stateTimesA[i] * bj;
        s += v[i] * kj;
        store(column + i * lanes<Real>, s);
        output[i] += s * rj;
        nextTimesA[i] += s * aj;
      }
    }
    for (int64_t i = 0; i < width; ++i) {
      stateTimesA[i] = nextTimesA[i];
      store(rows.output + at + row + i * lanes<Real>, output[i]);
      store(rows.stateTimesA + at + padded + row + i * lanes<Real>, nextTimesA[i]);
    }
  }
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

// S a of the first token, before any pass over the state has prepared it.
template <class Real>
void firstStateTimesA(const Real* tiles, const Real* a, Real* result, int64_t headSize, int64_t padded) {
  forEachTile<Real>(padded, [&](int64_t row, int64_t vectors) {
    for (int64_t i = 0; i < vectors; ++i) {
      Vector<Real> sum = {};
      for (int64_t j = 0; j < headSize; ++j) {
        sum += load(tiles + row * padded + (j * vectors + i) * lanes<Real>) * broadcast(a[j]);
      }
      store(result + row + i * lanes<Real>, sum);
    }
  });
}

template <class Storage, class Real>
void forwardHead(const Wkv7Forward<Storage, Real>& head) {
  const int64_t n = head.headSize, padded = roundUpToLanes<Real>(n), buffer = (wkv7Chunk + 1) * padded;
  Real* tiles = head.scratch;
  Real* first = tiles + padded * padded;
  const ForwardRows<Real> rows{first,
                               first + buffer,
                               first + 2 * buffer,
                               first + 3 * buffer,
                               first + 4 * buffer,
                               first + 5 * buffer,
                               first + 6 * buffer,
                               first + 7 * buffer};
  stateToTiles(head.initialState, tiles, n, padded);
  for (int64_t start = 0; start < head.tokens; start += wkv7Chunk) {
    const int64_t tokens = head.tokens - start < wkv7Chunk ? head.tokens - start : wkv7Chunk;
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t from = (start + t) * head.stride, to = t * padded;
      loadRow(head.r + from, rows.r + to, n, padded);
      loadRow(head.decay + from, rows.decay + to, n, padded);
      loadRow(head.k + from, rows.k + to, n, padded);
      loadRow(head.v + from, rows.v + to, n, padded);
      loadRow(head.a + from, rows.a + to, n, padded);
      loadRow(head.b + from, rows.b + to, n, padded);
      if (start + wkv7Chunk + t >= head.tokens) continue;
      const int64_t soon = from + wkv7Chunk * head.stride;
      for (const Storage* input : {head.r, head.decay, head.k, head.v, head.a, head.b})
        prefetchRow(input + soon, n);
    }
    const int64_t next = start + tokens;
    loadRow(head.a + (next < head.tokens ? next : next - 1) * head.stride, rows.a + tokens * padded, n,
            padded);
    if (start == 0) firstStateTimesA(tiles, rows.a, rows.stateTimesA, n, padded);
    if (head.checkpoints != nullptr)
      tilesToState(tiles, head.checkpoints + start / wkv7Chunk * n * n, n, padded);
    forEachTile<Real>(padded, [&](int64_t row, int64_t vectors) {
      if (vectors == 1) {
        forwardTile<Real, 1>(tiles + row * padded, n, padded, tokens, row, rows);
      } else {
        forwardTile<Real, forwardTileVectors>(tiles + row * padded, n, padded, tokens, row, rows);
      }
    });
    for (int64_t t = 0; t < tokens; ++t) {
      storeRow(rows.output + t * padded, head.output + (start + t) * head.stride, n);
      if (head.stateTimesA == nullptr) continue;
      storeRow(rows.stateTimesA + t * padded, head.stateTimesA + (start + t) * head.stride, n);
    }
    for (int64_t i = 0; i < padded; ++i) rows.stateTimesA[i] = rows.stateTimesA[tokens * padded + i];
  }
  tilesToState(tiles, head.finalState, n, padded);
}

}  // namespace aegir::kernels::AEGIR_ISA
