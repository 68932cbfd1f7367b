// The backward pass of WKV-7. Lanes are key columns. Chunks go in reverse; the states before a chunk's blocks
// (wkv7_block_body.h) are recomputed from its checkpoint, because dividing the decay out again would amplify
// rounding. With G the gradient of the state after a block, S the state before it, and y its outputs,
//   dv_m = G kk_mC + sum_{i>=m} (r_i . kk_mi) dy_i + sum_{i>m} (a_i . kk_m,i-1) du_i,   du_m alike with bb,
//   d(kk_mC) = G^T v_m,   d(bb_mC) = G^T u_m,   dP_C = column sums of G * S,
//   d(P_{i-1} a_i) = S^T du_i,   d(P_i r_i) = S^T dy_i,
//   d(a_i . kk_m) = du_i . v_m,  d(a_i . bb_m) = du_i . u_m,  d(r_i . kk_m) = dy_i . v_m,  and of bb_m, u_m,
//   G before = G diag(P_C) + sum_i du_i (P_{i-1} a_i)^T + dy_i (P_i r_i)^T,
// and from these the gradients of r, decay, k, a and b go back along the products of decays, last token
// first.
#pragma once

#include "native/kernels/wkv7_block_body.h"

namespace aegir::kernels::AEGIR_ISA {

// Rows are `padded` long.
template <class Real>
struct BackwardScratch {
  Real *gradState, *states;  // G, and the states before the chunk's blocks: (padded, padded) each
  Real* blocks;              // wkv7BlockScratch(padded) each
  Real *v, *u;               // of the chunk's tokens
  // Of a block's tokens; gradA .. gradB and gradDecay are those of the Block's vectors.
  Real *gradY, *gradV, *gradU, *gradA, *gradR, *gradK, *gradB, *gradDecay;
};

template <class Real>
BackwardScratch<Real> divideScratch(Real* scratch, int64_t padded) {
  const auto take = [&scratch](int64_t count) { return (scratch += count) - count; };
  const int64_t rows = wkv7BlockTokens * padded;
  return {take(padded * padded),
          take(wkv7MostBlocks * padded * padded),
          take(wkv7MostBlocks * wkv7BlockScratch(padded)),
          take(wkv7Chunk * padded),
          take(wkv7Chunk * padded),
          take(rows),
          take(rows),
          take(rows),
          take(rows),
          take(rows),
          take(rows),
          take(rows),
          take(padded)};
}

// Column vectors that pass together: a sum or a vector a token of each stays in registers (16, AVX-512 32).
constexpr int64_t backwardWidth = 2;

// Calls visit(Constant<vectors>, column) for the columns, backwardWidth vectors at a time, then one.
template <class Real, class Visit>
AEGIR_INLINE void forEachColumns(int64_t padded, const Visit& visit) {
  constexpr int64_t wide = backwardWidth * lanes<Real>;
  int64_t j = 0;
  for (; j + wide <= padded; j += wide) visit(Constant<backwardWidth>{}, j);
  for (; j < padded; j += lanes<Real>) visit(Constant<1>{}, j);
}

// to = from diag(scale) + sum_c x_c l_c^T in the columns from j; x lies along rows, l along columns. Without
// `scaled` the scale is 1.
template <class Real, int64_t C, int64_t width, bool scaled>
AEGIR_INLINE void updateColumns(const Real* from, Real* to, int64_t j, const Real* __restrict scale,
                                const Real* __restrict x, const Real* __restrict l, int64_t n,
                                int64_t padded) {
  Vector<Real> left[C][width], factor[width];
#pragma GCC unroll 4
  for (int64_t w = 0; w < width; ++w) {
#pragma GCC unroll 4
    for (int64_t c = 0; c < C; ++c) left[c][w] = load(l + c * padded + j + w * lanes<Real>);
    if constexpr (scaled) factor[w] = load(scale + j + w * lanes<Real>);
  }
  for (int64_t i = 0; i < n; ++i) {
    Vector<Real> s[width];
#pragma GCC unroll 4
    for (int64_t w = 0; w < width; ++w) {
      s[w] = load(from + i * padded + j + w * lanes<Real>);
      if constexpr (scaled) s[w] *= factor[w];
    }
#pragma GCC unroll 4
    for (int64_t c = 0; c < C; ++c) {
      const Vector<Real> xi = broadcast(x[c * padded + i]);
#pragma GCC unroll 4
      for (int64_t w = 0; w < width; ++w) s[w] += xi * left[c][w];
    }
#pragma GCC unroll 4
    for (int64_t w = 0; w < width; ++w) store(to + i * padded + j + w * lanes<Real>, s[w]);
  }
}

// p_c = M^T x_c in the columns from j.
template <class Real, int64_t C, int64_t width>
AEGIR_INLINE void columnSums(const Real* __restrict matrix, int64_t j, const Real* __restrict x,
                             Real* __restrict p, int64_t n, int64_t padded) {
  Vector<Real> sums[C][width];
  weightedSums(matrix + j, padded, x, n, padded, sums);
#pragma GCC unroll 4
  for (int64_t c = 0; c < C; ++c) {
#pragma GCC unroll 4
    for (int64_t w = 0; w < width; ++w) store(p + c * padded + j + w * lanes<Real>, sums[c][w]);
  }
}

// Column sums of left * right from column j.
template <class Real, int64_t width>
AEGIR_INLINE void productSums(const Real* __restrict left, const Real* __restrict right, int64_t j,
                              Real* __restrict sums, int64_t n, int64_t padded) {
  Vector<Real> even[width] = {}, odd[width] = {};  // two chains: an addition waits four cycles for the last
  const auto add = [&](Vector<Real>* to, int64_t i) {
#pragma GCC unroll 4
    for (int64_t w = 0; w < width; ++w) {
      const int64_t at = i * padded + j + w * lanes<Real>;
      to[w] += load(left + at) * load(right + at);
    }
  };
  int64_t i = 0;
  for (; i + 1 < n; i += 2) {
    add(even, i);
    add(odd, i + 1);
  }
  if (i < n) add(even, i);
#pragma GCC unroll 4
  for (int64_t w = 0; w < width; ++w) store(sums + j + w * lanes<Real>, even[w] + odd[w]);
}

// Rows whose sums over columns are made together.
constexpr int64_t rowsTogether = AEGIR_VECTOR_BYTES == 64 ? 4 : 2;

// The sums over lanes of rows 0, L/R, 2 L/R ... of L, as far as their number allows: see sumOfEach.
template <class Real, int64_t rows, int64_t h = lanes<Real> / 2>
AEGIR_INLINE Vector<Real> foldRows(Vector<Real>* x) {
  if constexpr (rows == 1) {
    return x[0];
  } else {
#pragma GCC unroll 8
    for (int64_t i = 0; i < rows / 2; ++i) x[i] = sumOfHalves<Real, h>(x[i], x[i + rows / 2]);
    return foldRows<Real, rows / 2, h / 2>(x);
  }
}

// p_c = M l_c.
template <class Real, int64_t C>
AEGIR_INLINE void rowSums(const Real* __restrict matrix, const Real* __restrict l, Real* __restrict p,
                          int64_t padded) {
  constexpr int64_t apart = lanes<Real> / rowsTogether;
  for (int64_t row = 0; row < padded; row += lanes<Real>) {
    Vector<Real> folded[C][apart];
#pragma GCC unroll 1
    for (int64_t i = 0; i < apart; ++i) {
      Vector<Real> sums[C][rowsTogether] = {};
      for (int64_t j = 0; j < padded; j += lanes<Real>) {
        Vector<Real> s[rowsTogether];
#pragma GCC unroll 8
        for (int64_t w = 0; w < rowsTogether; ++w) s[w] = load(matrix + (row + i + w * apart) * padded + j);
#pragma GCC unroll 8
        for (int64_t c = 0; c < C; ++c) {
          const Vector<Real> lj = load(l + c * padded + j);
#pragma GCC unroll 8
          for (int64_t w = 0; w < rowsTogether; ++w) sums[c][w] += s[w] * lj;
        }
      }
#pragma GCC unroll 8
      for (int64_t c = 0; c < C; ++c) folded[c][i] = foldRows<Real, rowsTogether>(sums[c]);
    }
#pragma GCC unroll 8
    for (int64_t c = 0; c < C; ++c) store(p + c * padded + row, sumOfEach<Real, apart / 2>(folded[c]));
  }
}

// dv and du of a block, in place of G kk and G bb.
template <class Real, int64_t C>
AEGIR_INLINE void solveBlock(const Real* __restrict factors, const BackwardScratch<Real>& scratch,
                             int64_t padded) {
  for (int64_t row = 0; row < padded; row += lanes<Real>) {
    Vector<Real> dy[C], du[C];
#pragma GCC unroll 8
    for (int64_t i = 0; i < C; ++i) dy[i] = load(scratch.gradY + i * padded + row);
#pragma GCC unroll 8
    for (int64_t m = C - 1; m >= 0; --m) {
      Vector<Real> dv = load(scratch.gradV + m * padded + row);
      du[m] = load(scratch.gradU + m * padded + row);
#pragma GCC unroll 8
      for (int64_t i = m; i < C; ++i) {
        dv += broadcast(factors[factorRK(i, m)]) * dy[i];
        du[m] += broadcast(factors[factorRB(i, m)]) * dy[i];
      }
#pragma GCC unroll 8
      for (int64_t i = m + 1; i < C; ++i) {
        dv += broadcast(factors[factorAK(i, m)]) * du[i];
        du[m] += broadcast(factors[factorAB(i, m)]) * du[i];
      }
      store(scratch.gradV + m * padded + row, dv);
      store(scratch.gradU + m * padded + row, du[m]);
    }
  }
}

template <class Real, int64_t C>
void gradFactors(const BackwardScratch<Real>& scratch, const Real* v, const Real* u, int64_t padded,
                 Real* factors) {
  constexpr int64_t count = blockFactors(C);
  Vector<Real> sums[count] = {};
  for (int64_t row = 0; row < padded; row += lanes<Real>) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < C; ++i) {
      const auto du = load(scratch.gradU + i * padded + row), dy = load(scratch.gradY + i * padded + row);
#pragma GCC unroll 8
      for (int64_t m = 0; m <= i; ++m) {
        const auto vm = load(v + m * padded + row), um = load(u + m * padded + row);
        if (m < i) {
          sums[factorAK(i, m)] += du * vm;
          sums[factorAB(i, m)] += du * um;
        }
        sums[factorRK(i, m)] += dy * vm;
        sums[factorRB(i, m)] += dy * um;
      }
    }
  }
  sumsOf<Real, count>(sums, factors);
}

// From the gradients of a block's vectors, decay and factors to those of its tokens' r, decay, k, a and b.
template <class Real, int64_t C, class Storage>
void storeGradients(const Wkv7Backward<Storage, Real>& head, int64_t token,
                    const BackwardScratch<Real>& scratch, const Real* factors, int64_t padded) {
  for (int64_t j = 0; j < padded; j += lanes<Real>) {
    const int64_t count = head.headSize - j;
    const auto at = [&](int64_t i) { return (token + i) * head.stride + j; };
    Vector<Real> kk[C][C], bb[C][C], product[C + 1], decay[C];  // kk[i][m] is kk_mi
    product[0] = broadcast(Real(1));
#pragma GCC unroll 8
    for (int64_t i = 0; i < C; ++i) {
      decay[i] = loadPart<Real>(head.decay + at(i), count);
      product[i + 1] = product[i] * decay[i];
#pragma GCC unroll 8
      for (int64_t m = 0; m < i; ++m) {
        kk[i][m] = kk[i - 1][m] * decay[i];
        bb[i][m] = bb[i - 1][m] * decay[i];
      }
      kk[i][i] = loadPart<Real>(head.k + at(i), count);
      bb[i][i] = loadPart<Real>(head.b + at(i), count);
    }
    Vector<Real> gradK[C], gradB[C], gradProduct = load(scratch.gradDecay + j);
#pragma GCC unroll 8
    for (int64_t m = 0; m < C; ++m) {
      gradK[m] = load(scratch.gradK + m * padded + j);
      gradB[m] = load(scratch.gradB + m * padded + j);
    }
#pragma GCC unroll 8
    for (int64_t i = C - 1; i >= 0; --i) {
      const auto r = loadPart<Real>(head.r + at(i), count), a = loadPart<Real>(head.a + at(i), count);
      const auto ofR = load(scratch.gradR + i * padded + j), ofA = load(scratch.gradA + i * padded + j);
      Vector<Real> gradR = ofR * product[i + 1], gradA = ofA * product[i];
      gradProduct += ofR * r;
      Vector<Real> gradDecay = gradProduct * product[i];
      gradProduct = gradProduct * decay[i] + ofA * a;
#pragma GCC unroll 8
      for (int64_t m = 0; m <= i; ++m) {
        const auto rk = broadcast(factors[factorRK(i, m)]), rb = broadcast(factors[factorRB(i, m)]);
        gradR += rk * kk[i][m];
        gradR += rb * bb[i][m];
        gradK[m] += rk * r;
        gradB[m] += rb * r;
      }
#pragma GCC unroll 8
      for (int64_t m = 0; m < i; ++m) {
        gradDecay += gradK[m] * kk[i - 1][m];
        gradDecay += gradB[m] * bb[i - 1][m];
        const auto ak = broadcast(factors[factorAK(i, m)]), ab = broadcast(factors[factorAB(i, m)]);
        gradA += ak * kk[i - 1][m];
        gradA += ab * bb[i - 1][m];
        gradK[m] = gradK[m] * decay[i] + ak * a;
        gradB[m] = gradB[m] * decay[i] + ab * a;
      }
      storePart<Real>(head.gradR + at(i), gradR, count);
      storePart<Real>(head.gradDecay + at(i), gradDecay, count);
      storePart<Real>(head.gradK + at(i), gradK[i], count);
      storePart<Real>(head.gradA + at(i), gradA, count);
      storePart<Real>(head.gradB + at(i), gradB[i], count);
    }
  }
}

// The block's gradients, given that of the state after it, which becomes that of the state before it.
template <class Real, int64_t C, class Storage>
void backwardBlock(const Wkv7Backward<Storage, Real>& head, int64_t token, const Real* before, const Real* v,
                   const Real* u, const Block<Real>& block, const BackwardScratch<Real>& scratch,
                   int64_t padded) {
  const int64_t n = head.headSize;
  Real* grad = scratch.gradState;
  for (int64_t i = 0; i < C; ++i)
    loadRow(head.gradOutput + (token + i) * head.stride, scratch.gradY + i * padded, n, padded);
  rowSums<Real, C>(grad, block.k, scratch.gradV, padded);
  rowSums<Real, C>(grad, block.b, scratch.gradU, padded);
  solveBlock<Real, C>(block.factors, scratch, padded);
  for (int64_t i = 0; i < C; ++i)
    storeRow(scratch.gradV + i * padded, head.gradV + (token + i) * head.stride, n);
  forEachColumns<Real>(padded, [&](auto vectors, int64_t j) {
    constexpr int64_t width = vectors.value;
    columnSums<Real, C, width>(before, j, scratch.gradU, scratch.gradA, n, padded);
    columnSums<Real, C, width>(before, j, scratch.gradY, scratch.gradR, n, padded);
    columnSums<Real, C, width>(grad, j, v, scratch.gradK, n, padded);
    columnSums<Real, C, width>(grad, j, u, scratch.gradB, n, padded);
    productSums<Real, width>(grad, before, j, scratch.gradDecay, n, padded);
    updateColumns<Real, C, width, true>(grad, grad, j, block.decay, scratch.gradU, block.a, n, padded);
    updateColumns<Real, C, width, false>(grad, grad, j, nullptr, scratch.gradY, block.r, n, padded);
  });
  Real factors[blockFactors(C) + lanes<Real>];
  gradFactors<Real, C>(scratch, v, u, padded, factors);
  storeGradients<Real, C>(head, token, scratch, factors, padded);
}

template <class Storage, class Real>
void backwardChunk(const Wkv7Backward<Storage, Real>& head, int64_t start, int64_t tokens, int64_t padded,
                   const BackwardScratch<Real>& scratch) {
  const int64_t n = head.headSize, state = padded * padded;
  const Real* checkpoint = head.checkpoints + start / wkv7Chunk * n * n;
  for (int64_t i = 0; i < n; ++i) loadRow(checkpoint + i * n, scratch.states + i * padded, n, padded);
  const auto blockAt = [&](int64_t ordinal) {
    return blockIn(scratch.blocks + ordinal * wkv7BlockScratch(padded), padded);
  };
  forEachBlock(tokens, [&](auto size, int64_t ordinal, int64_t first) {
    constexpr int64_t C = size.value;
    for (int64_t t = start + first + blocksAhead * C;
         t < start + first + (blocksAhead + 1) * C && t < start + tokens; ++t) {
      for (const Storage* input : {head.r, head.decay, head.k, head.v, head.a, head.b})
        prefetchRowFar<false>(input + t * head.stride, n);
      prefetchRowFar<false>(head.stateTimesA + t * head.stride, n);
    }
    const Block<Real> block = blockAt(ordinal);
    const int64_t at = (start + first) * head.stride;
    Real *v = scratch.v + first * padded, *u = scratch.u + first * padded;
    prepareBlock<Real, C>(BlockInput<Storage>{head.r + at, head.decay + at, head.k + at, head.a + at,
                                              head.b + at, head.stride, n},
                          padded, block);
    for (int64_t i = 0; i < C; ++i) {
      loadRow(head.v + at + i * head.stride, v + i * padded, n, padded);
      loadRow(head.stateTimesA + at + i * head.stride, u + i * padded, n, padded);
    }
    if (first + C == tokens) return;
    Real* before = scratch.states + ordinal * state;
    forEachColumns<Real>(padded, [&](auto vectors, int64_t j) {
      updateColumns<Real, C, vectors.value, true>(before, before + state, j, block.decay, v, block.k, n,
                                                  padded);
      updateColumns<Real, C, vectors.value, false>(before + state, before + state, j, nullptr, u, block.b, n,
                                                   padded);
    });
  });
  forEachBlockReversed(tokens, [&](auto size, int64_t ordinal, int64_t first) {
    constexpr int64_t C = size.value;
    for (int64_t t = start + first - C; t >= start && t < start + first; ++t) {
      prefetchRowFar<false>(head.gradOutput + t * head.stride, n);
      for (const Storage* grad : {head.gradR, head.gradDecay, head.gradK, head.gradV, head.gradA, head.gradB})
        prefetchRowFar<true>(grad + t * head.stride, n);
    }
    backwardBlock<Real, C>(head, start + first, scratch.states + ordinal * state, scratch.v + first * padded,
                           scratch.u + first * padded, blockAt(ordinal), scratch, padded);
  });
}

template <class Storage, class Real>
void backwardHead(const Wkv7Backward<Storage, Real>& head) {
  const int64_t n = head.headSize, padded = roundUpToLanes<Real>(n);
  const BackwardScratch<Real> scratch = divideScratch(head.scratch, padded);
  for (int64_t i = 0; i < padded * padded; ++i) scratch.gradState[i] = 0;
  for (int64_t i = 0; i < n; ++i)
    loadRow(head.gradFinalState + i * n, scratch.gradState + i * padded, n, padded);
  for (int64_t chunk = wkv7Checkpoints(head.tokens) - 1; chunk >= 0; --chunk) {
    const int64_t start = chunk * wkv7Chunk;
    backwardChunk(head, start, head.tokens - start < wkv7Chunk ? head.tokens - start : wkv7Chunk, padded,
                  scratch);
  }
  for (int64_t i = 0; i < n; ++i) storeRow(scratch.gradState + i * padded, head.gradInitialState + i * n, n);
}

}  // namespace aegir::kernels::AEGIR_ISA
