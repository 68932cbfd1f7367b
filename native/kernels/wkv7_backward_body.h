// The backward pass of WKV-7. Lanes are key columns: five of the seven gradients are sums over value rows.
// Chunks go in reverse; inside a chunk the states are recomputed from its checkpoint, because dividing the
// decay out again would amplify rounding. With
//   G_t = dL/dS_t (o_t's part included),   g_t = G_t b_t = dL/d(S_{t-1} a_t)
// one pass over G and S_{t-1} per token gives
//   dk_t = G_t^T v_t, db_t = G_t^T (S_{t-1} a_t), ddecay_t = sum_i (G_t * S_{t-1})_i, da_t = S_{t-1}^T g_t,
//   dr_{t-1} = S_{t-1}^T do_{t-1} G_{t-1} = G_t diag(decay_t) + g_t a_t^T + do_{t-1} r_{t-1}^T,   dv_{t-1} =
//   G_{t-1} k_{t-1},   g_{t-1} = G_{t-1} b_{t-1}
// A neutral token (decay 1, all else 0) after the last one and before the first one starts and ends the
// recursion.
#pragma once

#include "native/kernels/simd.h"
#include "native/kernels/wkv7_kernel.h"

namespace aegir::kernels::AEGIR_ISA {

// Rows of the tokens start-1 .. last of one chunk, each `padded` long.
template <class Real>
struct BackwardRows {
  Real *r, *decay, *k, *v, *a, *b, *gradOutput, *stateTimesA;
  Real *gradR, *gradDecay, *gradK, *gradV, *gradA, *gradB;
};

template <class Real>
struct BackwardScratch {
  Real* gradState;   // G, (N, padded)
  Real* states;      // (chunk + 1, row tile, padded)
  Real* gradTimesB;  // g of the token that comes next in the reverse order, (N)
  Real* partial;     // (2, row tile, lanes): dv and g before the sum over lanes
  BackwardRows<Real> rows;
};

template <class Real>
BackwardScratch<Real> divideScratch(Real* scratch, int64_t padded) {
  const int64_t buffer = (wkv7Chunk + 2) * padded;
  const auto take = [&scratch](int64_t count) {
    Real* taken = scratch;
    scratch += count;
    return taken;
  };
  BackwardScratch<Real> parts;
  parts.gradState = take(padded * padded);
  parts.states = take((wkv7Chunk + 1) * wkv7RowTile * padded);
  parts.gradTimesB = take(padded);
  parts.partial = take(2 * wkv7RowTile * lanes<Real>);
  parts.rows = {take(buffer), take(buffer), take(buffer), take(buffer), take(buffer),
                take(buffer), take(buffer), take(buffer), take(buffer), take(buffer),
                take(buffer), take(buffer), take(buffer), take(buffer)};
  return parts;
}

// states[t] is the state before the chunk's token t, for the rows of one tile; states[0] is given.
template <class Real>
void recomputeStates(Real* __restrict states, int64_t tokens, int64_t row, int64_t height, int64_t padded,
                     const BackwardRows<Real>& rows) {
  const int64_t size = wkv7RowTile * padded;
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t at = (t + 1) * padded;
    const Real *stateTimesA = rows.stateTimesA + at + row, *v = rows.v + at + row;
    const Real* before = states + t * size;
    Real* after = states + (t + 1) * size;
    for (int64_t j = 0; j < padded; j += lanes<Real>) {
      const Vector<Real> decay = load(rows.decay + at + j), b = load(rows.b + at + j),
                         k = load(rows.k + at + j);
      for (int64_t i = 0; i < height; ++i) {
        Vector<Real> s = load(before + i * padded + j) * decay;
        s += broadcast(stateTimesA[i]) * b;
        s += broadcast(v[i]) * k;
        store(after + i * padded + j, s);
      }
    }
  }
}

template <class Real>
AEGIR_INLINE void accumulate(Real* to, Vector<Real> x) {
  store(to, load(to) + x);
}

// One vector of key columns, over the rows of a tile. The first one starts the partial sums, the others add
// to them.
template <class Real, bool first>
AEGIR_INLINE void backwardColumns(Real* __restrict gradState, const Real* __restrict state,
                                  const Real* __restrict gradTimesB, Real* __restrict partialV,
                                  Real* __restrict partialB, int64_t j, int64_t at, int64_t before,
                                  int64_t row, int64_t height, int64_t padded,
                                  const BackwardRows<Real>& rows) {
  const Real *v = rows.v + at + row, *stateTimesA = rows.stateTimesA + at + row;
  const Real* gradOutput = rows.gradOutput + before + row;
  const Vector<Real> decay = load(rows.decay + at + j), a = load(rows.a + at + j),
                     r = load(rows.r + before + j), k = load(rows.k + before + j),
                     b = load(rows.b + before + j);
  Vector<Real> gradK = {}, gradB = {}, gradDecay = {}, gradA = {}, gradR = {};
  for (int64_t i = 0; i < height; ++i) {
    const Vector<Real> s = load(state + i * padded + j);
    Vector<Real> g = load(gradState + i * padded + j);
    gradK += g * broadcast(v[i]);
    gradB += g * broadcast(stateTimesA[i]);
    gradDecay += g * s;
    const Vector<Real> gi = broadcast(gradTimesB[i]);
    gradA += s * gi;
    g = g * decay + gi * a;
    const Vector<Real> oi = broadcast(gradOutput[i]);
    gradR += s * oi;
    g += oi * r;
    store(gradState + i * padded + j, g);
    const int64_t to = i * lanes<Real>;
    store(partialV + to, first ? g * k : load(partialV + to) + g * k);
    store(partialB + to, first ? g * b : load(partialB + to) + g * b);
  }
  accumulate(rows.gradK + at + j, gradK);
  accumulate(rows.gradB + at + j, gradB);
  accumulate(rows.gradDecay + at + j, gradDecay);
  accumulate(rows.gradA + at + j, gradA);
  accumulate(rows.gradR + before + j, gradR);
}

// One token (local index t + 1, its predecessor at t) over the rows of one tile.
template <class Real>
void backwardToken(Real* gradState, const Real* state, const Real* gradTimesB, Real* partial, int64_t t,
                   int64_t row, int64_t height, int64_t padded, const BackwardRows<Real>& rows) {
  const int64_t before = t * padded, at = before + padded;
  Real* partialB = partial + wkv7RowTile * lanes<Real>;
  backwardColumns<Real, true>(gradState, state, gradTimesB, partial, partialB, 0, at, before, row, height,
                              padded, rows);
  for (int64_t j = lanes<Real>; j < padded; j += lanes<Real>) {
    backwardColumns<Real, false>(gradState, state, gradTimesB, partial, partialB, j, at, before, row, height,
                                 padded, rows);
  }
}

template <class Real>
AEGIR_INLINE void sumPartials(const Real* partial, Real* sums, int64_t height) {
  for (int64_t i = 0; i < height; i += lanes<Real>) {
    Vector<Real> square[lanes<Real>];
    for (int64_t l = 0; l < lanes<Real>; ++l) square[l] = load(partial + (i + l) * lanes<Real>);
    const Vector<Real> sum = sumOfEach<Real>(square);
    if (i + lanes<Real> <= height) {
      store(sums + i, sum);
    } else {
      for (int64_t l = 0; i + l < height; ++l) sums[i + l] = sum[l];
    }
  }
}

// Tokens start .. last of one chunk in reverse; last may be the neutral token after the sequence.
template <class Real>
void backwardChunk(const Real* checkpoint, int64_t steps, int64_t headSize, int64_t padded,
                   const BackwardScratch<Real>& scratch) {
  for (int64_t row = 0; row < headSize; row += wkv7RowTile) {
    const int64_t height = headSize - row < wkv7RowTile ? headSize - row : wkv7RowTile;
    for (int64_t i = 0; i < height; ++i) {
      loadRow(checkpoint + (row + i) * headSize, scratch.states + i * padded, headSize, padded);
    }
    recomputeStates(scratch.states, steps - 1, row, height, padded, scratch.rows);
    for (int64_t t = steps - 1; t >= 0; --t) {
      backwardToken(scratch.gradState + row * padded, scratch.states + t * wkv7RowTile * padded,
                    scratch.gradTimesB + row, scratch.partial, t, row, height, padded, scratch.rows);
      sumPartials(scratch.partial, scratch.rows.gradV + t * padded + row, height);
      sumPartials(scratch.partial + wkv7RowTile * lanes<Real>, scratch.gradTimesB + row, height);
    }
  }
}

template <class Storage, class Real>
void loadBackwardRows(const Wkv7Backward<Storage, Real>& head, int64_t start, int64_t steps, int64_t padded,
                      const BackwardRows<Real>& rows) {
  const int64_t n = head.headSize;
  for (int64_t local = 0; local <= steps; ++local) {
    const int64_t token = start - 1 + local, from = token * head.stride, to = local * padded;
    if (token >= 0 && token < head.tokens) {
      loadRow(head.r + from, rows.r + to, n, padded);
      loadRow(head.decay + from, rows.decay + to, n, padded);
      loadRow(head.k + from, rows.k + to, n, padded);
      loadRow(head.v + from, rows.v + to, n, padded);
      loadRow(head.a + from, rows.a + to, n, padded);
      loadRow(head.b + from, rows.b + to, n, padded);
      loadRow(head.gradOutput + from, rows.gradOutput + to, n, padded);
      loadRow(head.stateTimesA + from, rows.stateTimesA + to, n, padded);
      if (token < wkv7Chunk) continue;
      const int64_t soon = from - wkv7Chunk * head.stride;
      for (const Storage* input : {head.r, head.decay, head.k, head.v, head.a, head.b, head.gradOutput}) {
        prefetchRow(input + soon, n);
      }
      prefetchRow(head.stateTimesA + soon, n);
    } else {
      for (Real* row : {rows.r, rows.k, rows.v, rows.a, rows.b, rows.gradOutput, rows.stateTimesA}) {
        for (int64_t i = 0; i < padded; ++i) row[to + i] = 0;
      }
      for (int64_t i = 0; i < padded; ++i) rows.decay[to + i] = 1;
    }
  }
  for (Real* grad : {rows.gradR, rows.gradDecay, rows.gradK, rows.gradV, rows.gradA, rows.gradB}) {
    for (int64_t i = 0; i < (steps + 1) * padded; ++i) grad[i] = 0;
  }
}

// gradR and gradV are complete for the tokens before the last step, the others for those of the chunk itself.
template <class Storage, class Real>
void storeGradients(const Wkv7Backward<Storage, Real>& head, int64_t start, int64_t steps, int64_t padded,
                    const BackwardRows<Real>& rows) {
  const int64_t n = head.headSize;
  for (int64_t local = 0; local <= steps; ++local) {
    const int64_t token = start - 1 + local, to = token * head.stride, from = local * padded;
    if (local < steps && token >= 0) {
      storeRow(rows.gradR + from, head.gradR + to, n);
      storeRow(rows.gradV + from, head.gradV + to, n);
    }
    if (local > 0 && token < head.tokens) {
      storeRow(rows.gradDecay + from, head.gradDecay + to, n);
      storeRow(rows.gradK + from, head.gradK + to, n);
      storeRow(rows.gradA + from, head.gradA + to, n);
      storeRow(rows.gradB + from, head.gradB + to, n);
    }
  }
}

template <class Storage, class Real>
void backwardHead(const Wkv7Backward<Storage, Real>& head) {
  const int64_t n = head.headSize, padded = roundUpToLanes<Real>(n);
  const BackwardScratch<Real> scratch = divideScratch(head.scratch, padded);
  for (int64_t i = 0; i < n; ++i)
    loadRow(head.gradFinalState + i * n, scratch.gradState + i * padded, n, padded);
  for (int64_t i = 0; i < padded; ++i) scratch.gradTimesB[i] = 0;
  for (int64_t i = 0; i < 2 * wkv7RowTile * lanes<Real>; ++i) scratch.partial[i] = 0;
  for (int64_t chunk = wkv7Checkpoints(head.tokens) - 1; chunk >= 0; --chunk) {
    const int64_t start = chunk * wkv7Chunk;
    const bool last = start + wkv7Chunk >= head.tokens;
    const int64_t steps = last ? head.tokens - start + 1 : wkv7Chunk;
    loadBackwardRows(head, start, steps, padded, scratch.rows);
    backwardChunk(head.checkpoints + chunk * n * n, steps, n, padded, scratch);
    storeGradients(head, start, steps, padded, scratch.rows);
  }
  for (int64_t i = 0; i < n; ++i) storeRow(scratch.gradState + i * padded, head.gradInitialState + i * n, n);
}

}  // namespace aegir::kernels::AEGIR_ISA
