// The kernel of one instruction set; a file `clip_loss_<isa>.cc` defines AEGIR_ISA and AEGIR_CLIP_LOSS_TABLE
// and includes this.
#pragma once

#include "native/kernels/clip_loss_kernel.h"
#include "native/kernels/simd_math.h"

// Vectors wider than a register are passed between inlined functions alone: there is no ABI to change.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace aegir::kernels::AEGIR_ISA {

template <class Real>
using Mask = Vector<typename ExpConstants<Real>::Integer>;

// As many numbers of another type as a vector of Real has lanes.
template <class Number, class Real>
struct AsManyOf {
  typedef Number type __attribute__((vector_size(lanes<Real> * static_cast<int64_t>(sizeof(Number)))));
};
template <class Number, class Real>
using AsMany = typename AsManyOf<Number, Real>::type;

// Sums over more than a few vectors are kept in double.
template <class Real>
using Wide = AsMany<double, Real>;

template <class Real>
AEGIR_INLINE Wide<Real> widen(Vector<Real> x) {
  return __builtin_convertvector(x, Wide<Real>);
}

template <class Real>
AEGIR_INLINE double total(const Wide<Real>& x) {
  double sum = 0;
  for (int64_t l = 0; l < lanes<Real>; ++l) sum += x[l];
  return sum;
}

template <class Real>
AEGIR_INLINE int64_t countOf(Mask<Real> x) {
  int64_t sum = 0;
  for (int64_t l = 0; l < lanes<Real>; ++l) sum -= static_cast<int64_t>(x[l]);
  return sum;
}

// Widened by factors of two, each an instruction: compilers take a conversion of bytes to wider integers
// apart into one for every lane.
template <class Real>
AEGIR_INLINE Mask<Real> loadMask(const bool* from) {
  AsMany<int8_t, Real> bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  const auto shorts = __builtin_convertvector(bytes, AsMany<int16_t, Real>);
  const auto ints = __builtin_convertvector(shorts, AsMany<int32_t, Real>);
  return __builtin_convertvector(ints, Mask<Real>) != 0;
}

constexpr double maxLogRatio = 20;

template <class Real>
AEGIR_INLINE Vector<Real> clampLogRatio(Vector<Real> x) {
  x = x > Real(maxLogRatio) ? broadcast(Real(maxLogRatio)) : x;
  return x < Real(-maxLogRatio) ? broadcast(Real(-maxLogRatio)) : x;
}

// e^x - 1 - x. Near 0, where the difference would lose its digits, by its series.
template <class Real>
AEGIR_INLINE Vector<Real> expMinusLinear(Vector<Real> x, Vector<Real> exp) {
  constexpr int terms = sizeof(Real) == 4 ? 8 : 15;
  Vector<Real> series = broadcast(inverseFactorial<Real>(terms + 1));
#pragma GCC unroll 16
  for (int n = terms; n >= 2; --n) series = series * x + inverseFactorial<Real>(n);
  series = series * x * x;
  const Mask<Real> near = (x < Real(0.5)) & (x > Real(-0.5));
  return near ? series : exp - Real(1) - x;
}

template <class Real>
struct Terms {
  Vector<Real> loss, grad;
  Mask<Real> low, high, dual;
};

template <class Real>
AEGIR_INLINE Terms<Real> ppoTerms(Vector<Real> advantage, Vector<Real> ratio, Mask<Real> saturated,
                                  const ClipLossForm<Real>& form) {
  const Vector<Real> low = broadcast(form.low), high = broadcast(form.high), dual = broadcast(form.dual),
                     none = {};
  Terms<Real> out;
  const Mask<Real> gain = advantage >= none;
  out.high = gain & (ratio > high);
  out.low = ~gain & (ratio < low);
  out.dual = ~gain & (ratio > dual);
  const Vector<Real> used = out.high ? high : (out.low ? low : (out.dual ? dual : ratio));
  out.loss = -advantage * used;
  out.grad = (out.high | out.low | out.dual | saturated) ? none : -advantage * ratio;
  return out;
}

template <class Real>
AEGIR_INLINE Terms<Real> k25Terms(Vector<Real> advantage, Vector<Real> logRatio, Vector<Real> ratio,
                                  Mask<Real> saturated, const ClipLossForm<Real>& form) {
  const Vector<Real> none = {};
  Terms<Real> out;
  out.low = logRatio < form.logLow;
  out.high = logRatio > form.logHigh;
  out.dual = out.low & ~out.low;
  const Mask<Real> outside = out.low | out.high;
  const Vector<Real> used = out.low ? broadcast(form.low) : (out.high ? broadcast(form.high) : ratio);
  const Vector<Real> slope = Real(2) * form.tau * logRatio;
  out.loss = -advantage * used + form.tau * logRatio * logRatio;
  out.grad = outside ? none : -advantage * ratio;
  out.grad += form.maskPenalty ? (outside ? none : slope) : slope;
  out.grad = saturated ? none : out.grad;
  return out;
}

// d = logpRef - logp.
template <class Real>
AEGIR_INLINE void addKl(Terms<Real>& terms, Vector<Real> raw, const ClipLossForm<Real>& form) {
  const Vector<Real> d = clampLogRatio<Real>(raw), none = {};
  Vector<Real> value = -d, slope = broadcast(Real(1));
  if (form.klForm == 2) {
    value = Real(0.5) * d * d;
    slope = -d;
  } else if (form.klForm == 3) {
    value = expMinusLinear<Real>(d, exponential<Real>(d));
    slope = -(value + d);
  }
  terms.loss += form.klCoef * value;
  terms.grad += d == raw ? form.klCoef * slope : none;
}

// Vectors whose sums are kept in Real before they are widened: conversions cost more than the sums.
constexpr int64_t vectorsPerChunk = 16;

// Sums over at most `vectorsPerChunk` vectors.
template <class Real>
struct Chunk {
  Vector<Real> loss = {}, logRatio = {}, kl3 = {}, logp = {}, ratio = {}, ratioSquared = {}, maxAbs = {};
  Mask<Real> valid = {}, low = {}, high = {}, dual = {};  // minus the counts
  Mask<Real> bad = {};                                    // lanes where a loss was not finite
};

template <class Real>
struct Totals {
  Wide<Real> loss = {}, logRatio = {}, kl3 = {}, logp = {}, ratio = {}, ratioSquared = {};
  Vector<Real> maxAbs = {};
  Mask<Real> valid = {}, low = {}, high = {}, dual = {}, bad = {};

  AEGIR_INLINE void add(const Chunk<Real>& chunk) {
    loss += widen<Real>(chunk.loss);
    logRatio += widen<Real>(chunk.logRatio);
    kl3 += widen<Real>(chunk.kl3);
    logp += widen<Real>(chunk.logp);
    ratio += widen<Real>(chunk.ratio);
    ratioSquared += widen<Real>(chunk.ratioSquared);
    maxAbs = chunk.maxAbs > maxAbs ? chunk.maxAbs : maxAbs;
    valid += chunk.valid;
    low += chunk.low;
    high += chunk.high;
    dual += chunk.dual;
    bad |= chunk.bad;
  }
};

// One vector of tokens from `i` on; lanes outside `valid` leave no trace.
template <class Real, bool K25>
AEGIR_INLINE void addTokens(const ClipLossRun<Real>& run, const ClipLossForm<Real>& form, int64_t i,
                            Mask<Real> valid, Chunk<Real>& sums) {
  const Real scale = Real(run.scale);
  const Vector<Real> none = {}, logp = load(run.logp + i), raw = logp - load(run.logpOld + i);
  const Vector<Real> logRatio = clampLogRatio<Real>(raw), ratio = exponential<Real>(logRatio);
  Vector<Real> advantage = load(run.advantages + i);
  if (run.correction) advantage *= load(run.correction + i);
  const Mask<Real> saturated = logRatio != raw;
  Terms<Real> terms = K25 ? k25Terms<Real>(advantage, logRatio, ratio, saturated, form)
                          : ppoTerms<Real>(advantage, ratio, saturated, form);
  if (form.klCoef != 0) addKl<Real>(terms, load(run.logpRef + i) - logp, form);
  if (run.weights) {
    terms.loss *= load(run.weights + i);
    terms.grad *= load(run.weights + i);
  }
  if (run.grad) store(run.grad + i, valid ? scale * terms.grad : none);
  const Vector<Real> loss = valid ? terms.loss : none, counted = valid ? ratio : none;
  sums.loss += loss;
  sums.logRatio += valid ? logRatio : none;
  sums.kl3 += valid ? expMinusLinear<Real>(logRatio, ratio) : none;
  sums.logp += valid ? logp : none;
  sums.ratio += counted;
  sums.ratioSquared += counted * counted;
  sums.valid += valid;
  sums.low += valid & terms.low;
  sums.high += valid & terms.high;
  sums.dual += valid & terms.dual;
  sums.bad |= (loss - loss) != none;  // x - x is NaN where x is not finite
  Vector<Real> size = raw < none ? -raw : raw;
  size = valid ? size : none;
  sums.maxAbs = size > sums.maxAbs ? size : sums.maxAbs;
}

// The last tokens of a run, fewer than a vector, as a vector of its own.
template <class Real>
struct Tail {
  static constexpr int64_t n = lanes<Real>;
  Real logp[n] = {}, logpOld[n] = {}, advantages[n] = {}, weights[n] = {}, correction[n] = {},
       logpRef[n] = {}, grad[n] = {};
  bool mask[n] = {};

  AEGIR_INLINE static const Real* copy(const Real* from, Real* to, int64_t begin, int64_t end) {
    if (!from) return nullptr;
    for (int64_t i = begin; i < end; ++i) to[i - begin] = from[i];
    return to;
  }

  AEGIR_INLINE ClipLossRun<Real> run(const ClipLossRun<Real>& whole, int64_t begin) {
    const int64_t end = whole.count;
    for (int64_t i = begin; i < end; ++i) mask[i - begin] = whole.mask ? whole.mask[i] : true;
    return {copy(whole.logp, logp, begin, end),
            copy(whole.logpOld, logpOld, begin, end),
            copy(whole.advantages, advantages, begin, end),
            mask,
            copy(whole.weights, weights, begin, end),
            copy(whole.correction, correction, begin, end),
            copy(whole.logpRef, logpRef, begin, end),
            whole.grad ? grad : nullptr,
            n,
            whole.scale};
  }
};

// Every vector of a run, the last one padded.
template <class Real, bool K25>
AEGIR_INLINE void addRun(const ClipLossRun<Real>& givenRun, const ClipLossForm<Real>& givenForm,
                         Totals<Real>& totals) {
  // Copies stay in registers: what is stored through a pointer cannot be part of them.
  const ClipLossRun<Real> run = givenRun;
  const ClipLossForm<Real> form = givenForm;
  constexpr int64_t perChunk = vectorsPerChunk * lanes<Real>;
  const Mask<Real> all = Mask<Real>{} == 0;
  const int64_t whole = run.count - run.count % lanes<Real>;
  for (int64_t begin = 0; begin < whole; begin += perChunk) {
    const int64_t end = begin + perChunk < whole ? begin + perChunk : whole;
    Chunk<Real> chunk;
    for (int64_t i = begin; i < end; i += lanes<Real>) {
      addTokens<Real, K25>(run, form, i, run.mask ? loadMask<Real>(run.mask + i) : all, chunk);
    }
    totals.add(chunk);
  }
  if (whole == run.count) return;
  Tail<Real> tail;
  const ClipLossRun<Real> rest = tail.run(run, whole);
  Chunk<Real> chunk;
  addTokens<Real, K25>(rest, form, 0, loadMask<Real>(rest.mask), chunk);
  totals.add(chunk);
  if (run.grad) Tail<Real>::copy(tail.grad, run.grad + whole, 0, run.count - whole);
}

// The first token of a run whose loss is not finite, found by looking at each alone.
template <class Real, bool K25>
int64_t firstBad(const ClipLossRun<Real>& run, const ClipLossForm<Real>& form) {
  for (int64_t i = 0; i < run.count; ++i) {
    Tail<Real> tail;
    ClipLossRun<Real> upToHere = run;
    upToHere.count = i + 1;
    const ClipLossRun<Real> one = tail.run(upToHere, i);
    Chunk<Real> chunk;
    addTokens<Real, K25>(one, form, 0, loadMask<Real>(one.mask), chunk);
    if (countOf<Real>(chunk.bad) > 0) return i;
  }
  return -1;
}

template <class Real, bool K25>
ClipLossSums sumsOf(const ClipLossRun<Real>& run, const ClipLossForm<Real>& form) {
  Totals<Real> totals;
  addRun<Real, K25>(run, form, totals);
  ClipLossSums sums;
  sums.loss = total<Real>(totals.loss);
  sums.valid = countOf<Real>(totals.valid);
  sums.clipLow = countOf<Real>(totals.low);
  sums.clipHigh = countOf<Real>(totals.high);
  sums.dual = countOf<Real>(totals.dual);
  sums.logRatio = total<Real>(totals.logRatio);
  sums.kl3 = total<Real>(totals.kl3);
  sums.logp = total<Real>(totals.logp);
  sums.ratio = total<Real>(totals.ratio);
  sums.ratioSquared = total<Real>(totals.ratioSquared);
  for (int64_t l = 0; l < lanes<Real>; ++l) {
    if (totals.maxAbs[l] > sums.maxAbsLogRatio) sums.maxAbsLogRatio = totals.maxAbs[l];
  }
  sums.bad = countOf<Real>(totals.bad) > 0 ? firstBad<Real, K25>(run, form) : -1;
  return sums;
}

template <class Real>
ClipLossSums runTokens(const ClipLossRun<Real>& run, const ClipLossForm<Real>& form) {
  return form.k25 ? sumsOf<Real, true>(run, form) : sumsOf<Real, false>(run, form);
}

template <class Real>
RowWeight rowWeight(const bool* mask, const Real* weights, int64_t count) {
  if (!mask && !weights) return {static_cast<double>(count), count};
  constexpr int64_t perChunk = vectorsPerChunk * lanes<Real>;
  RowWeight sum;
  Mask<Real> valid = {};
  const Mask<Real> all = Mask<Real>{} == 0;
  const int64_t whole = count - count % lanes<Real>;
  for (int64_t begin = 0; begin < whole; begin += perChunk) {
    const int64_t end = begin + perChunk < whole ? begin + perChunk : whole;
    Vector<Real> chunk = {};
    for (int64_t i = begin; i < end; i += lanes<Real>) {
      const Mask<Real> here = mask ? loadMask<Real>(mask + i) : all;
      const Vector<Real> weight = weights ? load(weights + i) : broadcast(Real(1));
      valid += here;
      chunk += here ? weight : Vector<Real>{};
    }
    sum.weight += total<Real>(widen<Real>(chunk));
  }
  sum.valid = countOf<Real>(valid);
  for (int64_t i = whole; i < count; ++i) {
    if (mask && !mask[i]) continue;
    sum.weight += weights ? static_cast<double>(weights[i]) : 1.0;
    sum.valid += 1;
  }
  return sum;
}

}  // namespace aegir::kernels::AEGIR_ISA

namespace aegir::kernels {

const ClipLossTable AEGIR_CLIP_LOSS_TABLE = {
    {AEGIR_ISA::runTokens<float>, AEGIR_ISA::rowWeight<float>},
    {AEGIR_ISA::runTokens<double>, AEGIR_ISA::rowWeight<double>},
};

}  // namespace aegir::kernels
