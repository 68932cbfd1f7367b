// The kernels of one instruction set; a file `decode_<isa>.cc` defines AEGIR_ISA and AEGIR_DECODE_TABLE and
// includes this.
#pragma once

#include "native/kernels/decode_kernel.h"
#include "native/kernels/simd_math.h"

namespace aegir::kernels::AEGIR_ISA {

template <class Real>
AEGIR_INLINE void setOrAdd(const RowProduct<Real>& p, int64_t row, int64_t out, Real value) {
  Real& y = p.y[row * p.out + out];
  y = p.add ? y + value : value;
}

// `outs` outputs of `rows` rows, `steps` vectors of the inputs at a time. outs * rows * steps sums stay in
// registers and hide the latency of multiply-adds; more than four rows of weights at a time are read slower.
// The weights of the next tile are asked for early.
template <class Real, int64_t outs, int64_t rows, int64_t steps>
AEGIR_INLINE void linearTile(const RowProduct<Real>& p, int64_t row, int64_t out) {
  constexpr int64_t stride = steps * lanes<Real>;
  const Real* x = p.x + row * p.in;
  const Real* weight = p.weight + out * p.in;
  constexpr int64_t sums = outs * rows * steps;
  Vector<Real> sum[roundUpToLanes<Real>(sums)] = {};  // outputs, of rows, of steps
  const int64_t whole = p.in - p.in % stride;
  for (int64_t i = 0; i < whole; i += stride) {
    for (int64_t o = 0; o < outs; ++o) __builtin_prefetch(weight + (o + outs) * p.in + i);
    for (int64_t u = 0; u < steps; ++u) {
      Vector<Real> values[rows];
      for (int64_t b = 0; b < rows; ++b) values[b] = load(x + b * p.in + i + u * lanes<Real>);
      for (int64_t o = 0; o < outs; ++o) {
        const Vector<Real> w = load(weight + o * p.in + i + u * lanes<Real>);
        for (int64_t b = 0; b < rows; ++b) sum[(o * rows + b) * steps + u] += w * values[b];
      }
    }
  }
  Real parts[roundUpToLanes<Real>(sums)];
  for (int64_t i = 0; i < sums; i += lanes<Real>) store(parts + i, sumOfEach<Real>(sum + i));
  for (int64_t o = 0; o < outs; ++o) {
    for (int64_t b = 0; b < rows; ++b) {
      Real total = 0;
      for (int64_t u = 0; u < steps; ++u) total += parts[(o * rows + b) * steps + u];
      for (int64_t i = whole; i < p.in; ++i) total += weight[o * p.in + i] * x[b * p.in + i];
      setOrAdd(p, row + b, out + o, total);
    }
  }
}

// The only row times `outs` rows of weights, at most `lanes`, one after another as they lie: the processor
// foresees such a read by itself, and asking for the weights early makes it slower. An output does not depend
// on which others are computed with it.
template <class Real>
AEGIR_INLINE void linearRow(const RowProduct<Real>& p, int64_t out, int64_t outs) {
  constexpr int64_t steps = 4, stride = steps * lanes<Real>;
  const Real* weight = p.weight + out * p.in;
  const int64_t whole = p.in - p.in % stride;
  Vector<Real> sums[lanes<Real>] = {};
  for (int64_t o = 0; o < outs; ++o, weight += p.in) {
    Vector<Real> sum[steps] = {};
    for (int64_t i = 0; i < whole; i += stride) {
      for (int64_t u = 0; u < steps; ++u)
        sum[u] += load(weight + i + u * lanes<Real>) * load(p.x + i + u * lanes<Real>);
    }
    int64_t i = whole;
    for (; i + lanes<Real> <= p.in; i += lanes<Real>) sum[0] += load(weight + i) * load(p.x + i);
    sums[o] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (; i < p.in; ++i) sums[o][0] += weight[i] * p.x[i];
  }
  Real result[lanes<Real>];
  store(result, sumOfEach<Real>(sums));
  for (int64_t o = 0; o < outs; ++o) setOrAdd(p, 0, out + o, result[o]);
}

// All rows for a strip of outputs, whose weights stay in the first-level cache.
template <class Real>
AEGIR_INLINE void linearStrip(const RowProduct<Real>& p, int64_t out) {
  int64_t row = 0;
  for (; row + 4 <= p.rows; row += 4) {
    linearTile<Real, 2, 4, 1>(p, row, out);
    linearTile<Real, 2, 4, 1>(p, row, out + 2);
  }
  for (; row + 2 <= p.rows; row += 2) linearTile<Real, 4, 2, 1>(p, row, out);
  for (; row < p.rows; ++row) linearTile<Real, 4, 1, 2>(p, row, out);
}

template <class Real>
void linear(const RowProduct<Real>& p) {
  int64_t out = p.first;
  if (p.rows == 1) {
    for (; out + lanes<Real> <= p.last; out += lanes<Real>) linearRow<Real>(p, out, lanes<Real>);
    if (out < p.last) linearRow<Real>(p, out, p.last - out);
    return;
  }
  for (; out + kLinearStrip <= p.last; out += kLinearStrip) linearStrip<Real>(p, out);
  for (; out < p.last; ++out) {
    for (int64_t row = 0; row < p.rows; ++row) linearTile<Real, 1, 1, 2>(p, row, out);
  }
}

template <class Real, int64_t vectors>
AEGIR_INLINE void lowRankTile(const RowProduct<Real>& p, int64_t row, int64_t out) {
  const Real* x = p.x + row * p.in;
  Real* y = p.y + row * p.out + out;
  Vector<Real> sum[vectors] = {};
  for (int64_t i = 0; i < p.in; ++i) {
    const Vector<Real> value = broadcast(x[i]);
    for (int64_t v = 0; v < vectors; ++v)
      sum[v] += value * load(p.weight + i * p.out + out + v * lanes<Real>);
  }
  for (int64_t v = 0; v < vectors; ++v) {
    Real* to = y + v * lanes<Real>;
    store(to, p.add ? load(to) + sum[v] : sum[v]);
  }
}

template <class Real>
void lowRankMap(const RowProduct<Real>& p) {
  constexpr int64_t wide = 4;
  for (int64_t row = 0; row < p.rows; ++row) {
    int64_t out = p.first;
    for (; out + wide * lanes<Real> <= p.last; out += wide * lanes<Real>)
      lowRankTile<Real, wide>(p, row, out);
    for (; out + lanes<Real> <= p.last; out += lanes<Real>) lowRankTile<Real, 1>(p, row, out);
    for (; out < p.last; ++out) {
      Real sum = 0;
      for (int64_t i = 0; i < p.in; ++i) sum += p.x[row * p.in + i] * p.weight[i * p.out + out];
      setOrAdd(p, row, out, sum);
    }
  }
}

template <class Real>
void layerNorm(const RowNorm<Real>& p) {
  for (int64_t row = 0; row < p.rows; ++row) {
    const Real* x = p.x + row * p.width;
    Vector<Real> sum = {}, squares = {};
    for (int64_t d = 0; d < p.width; d += lanes<Real>) sum += load(x + d);
    const Real mean = sumOfLanes<Real>(sum) / Real(p.width);
    for (int64_t d = 0; d < p.width; d += lanes<Real>) {
      const Vector<Real> centred = load(x + d) - mean;
      squares += centred * centred;
    }
    const Real variance = sumOfLanes<Real>(squares) / Real(p.width);
    const Real scale = Real(1) / static_cast<Real>(__builtin_sqrt(variance + Real(1e-5)));
    for (int64_t d = 0; d < p.width; d += lanes<Real>) {
      store(p.result + row * p.width + d, (load(x + d) - mean) * scale * load(p.gain + d) + load(p.bias + d));
    }
  }
}

// Lanes = key columns, `lanes` value rows at a time: S a by one pass over the rows, then S and S r by
// another.
template <class Real>
void wkv7Step(const Wkv7Step<Real>& p) {
  constexpr int64_t height = lanes<Real>;
  const int64_t n = p.headSize;
  for (int64_t row = 0; row < n; row += height) {
    Real* rows = p.state + row * n;
    Vector<Real> sum[height] = {};
    for (int64_t j = 0; j < n; j += lanes<Real>) {
      const Vector<Real> a = load(p.a + j);
      for (int64_t i = 0; i < height; ++i) sum[i] += load(rows + i * n + j) * a;
    }
    const Vector<Real> stateTimesA = sumOfEach<Real>(sum), v = load(p.v + row);
    for (int64_t i = 0; i < height; ++i) sum[i] = Vector<Real>{};
    for (int64_t j = 0; j < n; j += lanes<Real>) {
      const Vector<Real> decay = load(p.decay + j), b = load(p.b + j), k = load(p.k + j), r = load(p.r + j);
      for (int64_t i = 0; i < height; ++i) {
        const Vector<Real> s = load(rows + i * n + j) * decay + b * stateTimesA[i] + k * v[i];
        store(rows + i * n + j, s);
        sum[i] += s * r;
      }
    }
    store(p.output + row, sumOfEach<Real>(sum));
  }
}

template <class Real>
void tanhInPlace(const Activation<Real>& p) {
  for (int64_t i = 0; i < p.count; i += lanes<Real>) {
    store(p.x + i, Real(2) * sigmoid<Real>(Real(2) * load(p.x + i)) - Real(1));
  }
}

template <class Real>
void sigmoidInPlace(const Activation<Real>& p) {
  for (int64_t i = 0; i < p.count; i += lanes<Real>) store(p.x + i, sigmoid<Real>(load(p.x + i)));
}

template <class Real>
void gatedSilu(const Activation<Real>& p) {
  for (int64_t i = 0; i < p.count; i += lanes<Real>) {
    const Vector<Real> x = load(p.x + i);
    store(p.x + i, x * sigmoid<Real>(x) * load(p.factor + i));
  }
}

template <class Real>
constexpr DecodeKernels<Real> decodeKernels = {linear<Real>,   lowRankMap<Real>,  layerNorm<Real>,
                                               wkv7Step<Real>, tanhInPlace<Real>, sigmoidInPlace<Real>,
                                               gatedSilu<Real>};

}  // namespace aegir::kernels::AEGIR_ISA

namespace aegir::kernels {

const DecodeTables AEGIR_DECODE_TABLE = {AEGIR_ISA::decodeKernels<float>, AEGIR_ISA::decodeKernels<double>};

}  // namespace aegir::kernels
