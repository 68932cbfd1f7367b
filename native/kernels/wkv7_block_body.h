// WKV-7 a block of C tokens at a time. With P_i the product of the first i decays of the block, and
//   kk_mi = k_m decay_{m+1} ... decay_i,   bb_mi alike,
// all elementwise, S_i = S_{i-1} diag(decay_i) + u_i b_i^T + v_i k_i^T with u_i = S_{i-1} a_i becomes, from
// the state S before the block,
//   u_i = S (P_{i-1} a_i) + sum_{m<i}  (a_i . kk_m,i-1) v_m + (a_i . bb_m,i-1) u_m
//   y_i = S (P_i r_i)     + sum_{m<=i} (r_i . kk_mi) v_m    + (r_i . bb_mi) u_m
//   S'  = S diag(P_C)     + sum_m v_m kk_mC^T + u_m bb_mC^T.
// Products of the state with two vectors a token and two rank-one updates a token are what the recurrence
// costs too, but the state is read and written once a block, and its decay is applied once. Decays are
// multiplied, never divided out: no quotient amplifies rounding.
#pragma once

#include "native/kernels/simd.h"
#include "native/kernels/wkv7_kernel.h"

namespace aegir::kernels::AEGIR_ISA {

// Inputs are asked for as many blocks before they are read.
constexpr int64_t blocksAhead = 2;

// A number known to the compiler, as an argument.
template <int64_t number>
struct Constant {
  static constexpr int64_t value = number;
};

// Calls visit(Constant<C>, ordinal, first token) for each block of `count` tokens: whole blocks, then single
// tokens.
template <class Visit>
AEGIR_INLINE void forEachBlock(int64_t count, const Visit& visit) {
  const int64_t whole = count / wkv7BlockTokens;
  for (int64_t i = 0; i < whole; ++i) visit(Constant<wkv7BlockTokens>{}, i, i * wkv7BlockTokens);
  for (int64_t t = whole * wkv7BlockTokens; t < count; ++t)
    visit(Constant<1>{}, whole + t - whole * wkv7BlockTokens, t);
}

template <class Visit>
AEGIR_INLINE void forEachBlockReversed(int64_t count, const Visit& visit) {
  const int64_t whole = count / wkv7BlockTokens;
  for (int64_t t = count - 1; t >= whole * wkv7BlockTokens; --t)
    visit(Constant<1>{}, whole + t - whole * wkv7BlockTokens, t);
  for (int64_t i = whole - 1; i >= 0; --i) visit(Constant<wkv7BlockTokens>{}, i, i * wkv7BlockTokens);
}

// Factors between the tokens of a block, 2 C^2 of them: of token i, those of a_i with k_m and b_m for m < i,
// those of r_i with k_m and b_m for m <= i. Their gradients lie alike.
constexpr int64_t blockFactors(int64_t tokens) { return 2 * tokens * tokens; }
constexpr int64_t factorAK(int64_t i, int64_t m) { return 2 * i * i + m; }
constexpr int64_t factorAB(int64_t i, int64_t m) { return 2 * i * i + i + m; }
constexpr int64_t factorRK(int64_t i, int64_t m) { return 2 * i * i + 2 * i + m; }
constexpr int64_t factorRB(int64_t i, int64_t m) { return 2 * i * i + 3 * i + 1 + m; }

// What the arithmetic of a block of C tokens reads, beside v and u. Rows are `padded` long.
template <class Real>
struct Block {
  Real *a, *r;    // P_{i-1} a_i and P_i r_i, against the state before the block: C rows
  Real *k, *b;    // kk_mC and bb_mC, for the state after it: C rows
  Real* decay;    // P_C: one row
  Real* factors;  // blockFactors(C)
};

// A block's parts in wkv7BlockScratch(padded) elements.
template <class Real>
AEGIR_INLINE Block<Real> blockIn(Real* scratch, int64_t padded) {
  const int64_t rows = wkv7BlockTokens * padded;
  return {scratch,
          scratch + rows,
          scratch + 2 * rows,
          scratch + 3 * rows,
          scratch + 4 * rows,
          scratch + 4 * rows + padded};
}

// The sums over the lanes of `count` vectors. Whole vectors are written: up to `lanes` elements past the last
// sum.
template <class Real, int64_t count>
AEGIR_INLINE void sumsOf(const Vector<Real>* partial, Real* sums) {
#pragma GCC unroll 1
  for (int64_t i = 0; i < count; i += lanes<Real>) {
    Vector<Real> square[lanes<Real>];
#pragma GCC unroll 16
    for (int64_t c = 0; c < lanes<Real>; ++c) square[c] = i + c < count ? partial[i + c] : Vector<Real>{};
    store(sums + i, sumOfEach<Real>(square));
  }
}

// result_c = sum over i < n of x_c[i] m_i for C rows x_c, where the m_i are `width` vectors each, `step`
// elements apart.
template <class Real, int64_t C, int64_t width>
AEGIR_INLINE void weightedSums(const Real* __restrict m, int64_t step, const Real* __restrict x, int64_t n,
                               int64_t padded, Vector<Real> (&result)[C][width]) {
  Vector<Real> sums[C][width] = {};
  for (int64_t i = 0; i < n; ++i) {
    Vector<Real> mi[width];
#pragma GCC unroll 4
    for (int64_t w = 0; w < width; ++w) mi[w] = load(m + i * step + w * lanes<Real>);
#pragma GCC unroll 4
    for (int64_t c = 0; c < C; ++c) {
      const Vector<Real> xi = broadcast(x[c * padded + i]);
#pragma GCC unroll 4
      for (int64_t w = 0; w < width; ++w) sums[c][w] += mi[w] * xi;
    }
  }
#pragma GCC unroll 4
  for (int64_t c = 0; c < C; ++c) {
#pragma GCC unroll 4
    for (int64_t w = 0; w < width; ++w) result[c][w] = sums[c][w];
  }
}

// The inputs of a block's tokens, in memory `stride` apart, n elements each.
template <class Storage>
struct BlockInput {
  const Storage *r, *decay, *k, *a, *b;
  int64_t stride, n;
};

// Token i of the block, whose earlier tokens' k and b are decayed up to token i - 1. Writes the factors' sums
// before they cross lanes.
template <class Real, int64_t i, class Storage>
AEGIR_INLINE void prepareToken(const BlockInput<Storage>& input, int64_t padded, const Block<Real>& block,
                               Vector<Real>* factors) {
  Vector<Real> ak[i + 1] = {}, ab[i + 1] = {}, rk[i + 1] = {}, rb[i + 1] = {};
  for (int64_t j = 0; j < padded; j += lanes<Real>) {
    const int64_t from = i * input.stride + j, to = i * padded + j, count = input.n - j;
    const auto a = loadPart<Real>(input.a + from, count), r = loadPart<Real>(input.r + from, count),
               decay = loadPart<Real>(input.decay + from, count);
#pragma GCC unroll 8
    for (int64_t m = 0; m < i; ++m) {
      Real *kTo = block.k + m * padded + j, *bTo = block.b + m * padded + j;
      Vector<Real> k = load(kTo), b = load(bTo);
      ak[m] += a * k;
      ab[m] += a * b;
      k *= decay;
      b *= decay;
      rk[m] += r * k;
      rb[m] += r * b;
      store(kTo, k);
      store(bTo, b);
    }
    const auto k = loadPart<Real>(input.k + from, count), b = loadPart<Real>(input.b + from, count);
    rk[i] += r * k;
    rb[i] += r * b;
    store(block.k + to, k);
    store(block.b + to, b);
    const Vector<Real> before = i == 0 ? broadcast(Real(1)) : load(block.decay + j), after = before * decay;
    store(block.a + to, a * before);
    store(block.r + to, r * after);
    store(block.decay + j, after);
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m < i; ++m) {
    factors[factorAK(i, m)] = ak[m];
    factors[factorAB(i, m)] = ab[m];
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m <= i; ++m) {
    factors[factorRK(i, m)] = rk[m];
    factors[factorRB(i, m)] = rb[m];
  }
}

template <class Real, int64_t C, class Storage>
void prepareBlock(const BlockInput<Storage>& input, int64_t padded, const Block<Real>& block) {
  static_assert(C <= 4);
  Vector<Real> factors[blockFactors(C)];
  prepareToken<Real, 0>(input, padded, block, factors);
  if constexpr (C > 1) prepareToken<Real, 1>(input, padded, block, factors);
  if constexpr (C > 2) prepareToken<Real, 2>(input, padded, block, factors);
  if constexpr (C > 3) prepareToken<Real, 3>(input, padded, block, factors);
  sumsOf<Real, blockFactors(C)>(factors, block.factors);
}

}  // namespace aegir::kernels::AEGIR_ISA
