// The kernels of one instruction set; a file `time_mix_<isa>.cc` defines AEGIR_ISA and AEGIR_TIME_MIX_TABLE
// and includes this.
#pragma once

#include "native/kernels/simd_math.h"
#include "native/kernels/time_mix_kernel.h"

namespace aegir::kernels::AEGIR_ISA {

constexpr double decayScale = -0.60653065971263342;  // -exp(-0.5)

template <class Real>
AEGIR_INLINE void addTo(Real* to, Vector<Real> x) {
  store(to, load(to) + x);
}

template <class Real>
void shiftMix(const ShiftMix<Real>& p) {
  for (int64_t t = 0; t < p.tokens; ++t) {
    const Real* x = p.x + t * p.width;
    const Real* previous = t > 0 ? x - p.width : p.carried;
    for (int64_t d = 0; d < p.width; d += lanes<Real>) {
      const Vector<Real> now = load(x + d),
                         delta = (previous != nullptr ? load(previous + d) : Vector<Real>{}) - now;
      for (int64_t c = 0; c < p.mixes; ++c) {
        store(p.mixed[c] + t * p.width + d, now + delta * load(p.mu + c * p.width + d));
      }
    }
  }
}

// In reverse: gradCarried holds what the following token sends back to the row before it.
template <class Real>
void shiftMixBackward(const ShiftMixBackward<Real>& p) {
  for (int64_t t = p.tokens - 1; t >= 0; --t) {
    const Real* x = p.x + t * p.width;
    const Real* previous = t > 0 ? x - p.width : p.carried;
    for (int64_t d = 0; d < p.width; d += lanes<Real>) {
      const Vector<Real> now = load(x + d),
                         delta = (previous != nullptr ? load(previous + d) : Vector<Real>{}) - now;
      Vector<Real> sum = {}, toPrevious = {};
      for (int64_t c = 0; c < p.mixes; ++c) {
        const Vector<Real> grad = load(p.gradMixed[c] + t * p.width + d);
        sum += grad;
        toPrevious += grad * load(p.mu + c * p.width + d);
        addTo(p.gradMu + c * p.width + d, grad * delta);
      }
      store(p.gradX + t * p.width + d, sum - toPrevious + load(p.gradCarried + d));
      store(p.gradCarried + d, toPrevious);
    }
  }
}

template <class Real>
void decay(const Decay<Real>& p) {
  for (int64_t i = 0; i < p.count; i += lanes<Real>) {
    store(p.decay + i, exponential<Real>(sigmoid<Real>(load(p.z + i)) * Real(decayScale)));
  }
}

template <class Real>
void decayBackward(const DecayBackward<Real>& p) {
  for (int64_t i = 0; i < p.count; i += lanes<Real>) {
    const Vector<Real> s = sigmoid<Real>(load(p.z + i));
    store(p.gradZ + i, load(p.gradDecay + i) * load(p.decay + i) * Real(decayScale) * s * (Real(1) - s));
  }
}

template <class Real>
void valueMix(const ValueMix<Real>& p) {
  for (int64_t i = 0; i < p.count; i += lanes<Real>) {
    const Vector<Real> value = load(p.value + i);
    store(p.mixed + i, value + (load(p.first + i) - value) * sigmoid<Real>(load(p.z + i)));
  }
}

template <class Real>
void valueMixBackward(const ValueMixBackward<Real>& p) {
  for (int64_t i = 0; i < p.count; i += lanes<Real>) {
    const Vector<Real> s = sigmoid<Real>(load(p.z + i)), grad = load(p.gradMixed + i), toFirst = grad * s;
    store(p.gradFirst + i, toFirst);
    store(p.gradValue + i, grad - toFirst);
    store(p.gradZ + i, toFirst * (Real(1) - s) * (load(p.first + i) - load(p.value + i)));
  }
}

// 1 / |k * kK| of one head; norms under 1e-12 count as 1e-12.
template <class Real>
AEGIR_INLINE Real inverseNorm(const Real* k, const Real* kK, int64_t headSize, bool& clamped) {
  Vector<Real> squares = {};
  for (int64_t d = 0; d < headSize; d += lanes<Real>) {
    const Vector<Real> scaled = load(k + d) * load(kK + d);
    squares += scaled * scaled;
  }
  const Real norm = static_cast<Real>(__builtin_sqrt(sumOfLanes<Real>(squares)));
  clamped = norm < Real(1e-12);
  return Real(1) / (clamped ? Real(1e-12) : norm);
}

template <class Real>
void keyNorm(const KeyNorm<Real>& p) {
  for (int64_t head = 0; head < p.rows * p.heads; ++head) {
    const int64_t at = head * p.headSize, channel = head % p.heads * p.headSize;
    bool clamped;
    const Real scale = inverseNorm(p.k + at, p.kK + channel, p.headSize, clamped);
    for (int64_t d = 0; d < p.headSize; d += lanes<Real>) {
      const Vector<Real> k = load(p.k + at + d), a = sigmoid<Real>(load(p.aLogits + at + d));
      const Vector<Real> kk = k * load(p.kK + channel + d) * scale;
      store(p.key + at + d, k + k * load(p.kA + channel + d) * (a - Real(1)));
      store(p.removal + at + d, -kk);
      store(p.gated + at + d, kk * a);
    }
  }
}

template <class Real>
void keyNormBackward(const KeyNormBackward<Real>& p) {
  for (int64_t head = 0; head < p.rows * p.heads; ++head) {
    const int64_t at = head * p.headSize, channel = head % p.heads * p.headSize;
    bool clamped;
    const Real scale = inverseNorm(p.k + at, p.kK + channel, p.headSize, clamped);
    Vector<Real> along = {};
    for (int64_t d = 0; d < p.headSize; d += lanes<Real>) {
      const Vector<Real> a = sigmoid<Real>(load(p.aLogits + at + d));
      const Vector<Real> kk = load(p.k + at + d) * load(p.kK + channel + d) * scale;
      along += kk * (load(p.gradGated + at + d) * a - load(p.gradRemoval + at + d));
    }
    const Real radial = clamped ? Real(0) : sumOfLanes<Real>(along);  // a clamped norm is a constant
    for (int64_t d = 0; d < p.headSize; d += lanes<Real>) {
      const Vector<Real> k = load(p.k + at + d), kK = load(p.kK + channel + d), kA = load(p.kA + channel + d);
      const Vector<Real> a = sigmoid<Real>(load(p.aLogits + at + d)), kk = k * kK * scale;
      const Vector<Real> gradKey = load(p.gradKey + at + d), gradGated = load(p.gradGated + at + d);
      const Vector<Real> gradKk = gradGated * a - load(p.gradRemoval + at + d);
      const Vector<Real> gradScaled = (gradKk - kk * radial) * scale;
      store(p.gradALogits + at + d, (gradGated * kk + gradKey * k * kA) * a * (Real(1) - a));
      store(p.gradK + at + d, gradKey + gradKey * kA * (a - Real(1)) + gradScaled * kK);
      addTo(p.gradKK + channel + d, gradScaled * k);
      addTo(p.gradKA + channel + d, gradKey * k * (a - Real(1)));
    }
  }
}

template <class Real>
struct HeadMoments {
  Real mean, scale, bonus;  // scale: 1 / standard deviation; bonus: sum of r * k * rK
};

template <class Real>
AEGIR_INLINE HeadMoments<Real> headMoments(const Real* o, const Real* r, const Real* k, const Real* rK,
                                           int64_t headSize) {
  Vector<Real> sum = {}, bonus = {}, squares = {};
  for (int64_t d = 0; d < headSize; d += lanes<Real>) {
    sum += load(o + d);
    bonus += load(r + d) * load(k + d) * load(rK + d);
  }
  const Real mean = sumOfLanes<Real>(sum) / Real(headSize);
  for (int64_t d = 0; d < headSize; d += lanes<Real>) {
    const Vector<Real> centred = load(o + d) - mean;
    squares += centred * centred;
  }
  const Real variance = sumOfLanes<Real>(squares) / Real(headSize);
  const Real scale = Real(1) / static_cast<Real>(__builtin_sqrt(variance + Real(headSize) * Real(1e-5)));
  return {mean, scale, sumOfLanes<Real>(bonus)};
}

template <class Real>
void normBonusGate(const NormBonusGate<Real>& p) {
  for (int64_t head = 0; head < p.rows * p.heads; ++head) {
    const int64_t at = head * p.headSize, channel = head % p.heads * p.headSize;
    const HeadMoments<Real> moments = headMoments(p.o + at, p.r + at, p.k + at, p.rK + channel, p.headSize);
    for (int64_t d = 0; d < p.headSize; d += lanes<Real>) {
      const Vector<Real> normalised = (load(p.o + at + d) - moments.mean) * moments.scale;
      const Vector<Real> sum = normalised * load(p.gain + channel + d) + load(p.bias + channel + d) +
                               load(p.v + at + d) * moments.bonus;
      store(p.result + at + d, sum * load(p.gate + at + d));
    }
  }
}

template <class Real>
void normBonusGateBackward(const NormBonusGateBackward<Real>& p) {
  for (int64_t head = 0; head < p.rows * p.heads; ++head) {
    const int64_t at = head * p.headSize, channel = head % p.heads * p.headSize;
    const HeadMoments<Real> moments = headMoments(p.o + at, p.r + at, p.k + at, p.rK + channel, p.headSize);
    Vector<Real> sumNorm = {}, sumAlong = {}, sumBonus = {};
    for (int64_t d = 0; d < p.headSize; d += lanes<Real>) {
      const Vector<Real> normalised = (load(p.o + at + d) - moments.mean) * moments.scale;
      const Vector<Real> v = load(p.v + at + d), gain = load(p.gain + channel + d);
      const Vector<Real> gradResult = load(p.gradResult + at + d), grad = gradResult * load(p.gate + at + d);
      const Vector<Real> sum = normalised * gain + load(p.bias + channel + d) + v * moments.bonus;
      store(p.gradGate + at + d, gradResult * sum);
      store(p.gradV + at + d, grad * moments.bonus);
      addTo(p.gradGain + channel + d, grad * normalised);
      addTo(p.gradBias + channel + d, grad);
      sumNorm += grad * gain;
      sumAlong += grad * gain * normalised;
      sumBonus += grad * v;
    }
    const Real meanNorm = sumOfLanes<Real>(sumNorm) / Real(p.headSize);
    const Real meanAlong = sumOfLanes<Real>(sumAlong) / Real(p.headSize);
    const Real gradBonus = sumOfLanes<Real>(sumBonus);
    for (int64_t d = 0; d < p.headSize; d += lanes<Real>) {
      const Vector<Real> normalised = (load(p.o + at + d) - moments.mean) * moments.scale;
      const Vector<Real> grad =
          load(p.gradResult + at + d) * load(p.gate + at + d) * load(p.gain + channel + d);
      store(p.gradO + at + d, (grad - meanNorm - normalised * meanAlong) * moments.scale);
      const Vector<Real> r = load(p.r + at + d), k = load(p.k + at + d),
                         rK = load(p.rK + channel + d) * gradBonus;
      store(p.gradR + at + d, k * rK);
      store(p.gradK + at + d, r * rK);
      addTo(p.gradRK + channel + d, r * k * gradBonus);
    }
  }
}

template <class Real>
AEGIR_INLINE Vector<Real> positivePart(Vector<Real> x) {
  return x > Real(0) ? x : (x == x ? Vector<Real>{} : x);  // NaN stays NaN
}

template <class Real>
void squaredRelu(const SquaredRelu<Real>& p) {
  for (int64_t i = 0; i < p.count; i += lanes<Real>) {
    const Vector<Real> x = positivePart<Real>(load(p.x + i));
    store(p.result + i, x * x);
  }
}

template <class Real>
void squaredReluBackward(const SquaredReluBackward<Real>& p) {
  for (int64_t i = 0; i < p.count; i += lanes<Real>) {
    store(p.gradX + i, positivePart<Real>(load(p.x + i)) * load(p.gradResult + i) * Real(2));
  }
}

template <class Real>
void rowsAffine(const RowsAffine<Real>& p) {
  for (int64_t row = 0; row < p.rows; ++row) {
    Real* x = p.x + row * p.width;
    for (int64_t i = 0; i < p.width; i += lanes<Real>)
      store(x + i, load(x + i) * load(p.gain + i) + load(p.bias + i));
  }
}

template <class Real>
constexpr TimeMixKernels<Real> timeMixKernels = {lanes<Real>,
                                                 shiftMix<Real>,
                                                 shiftMixBackward<Real>,
                                                 decay<Real>,
                                                 decayBackward<Real>,
                                                 valueMix<Real>,
                                                 valueMixBackward<Real>,
                                                 keyNorm<Real>,
                                                 keyNormBackward<Real>,
                                                 normBonusGate<Real>,
                                                 normBonusGateBackward<Real>,
                                                 squaredRelu<Real>,
                                                 squaredReluBackward<Real>,
                                                 rowsAffine<Real>};

}  // namespace aegir::kernels::AEGIR_ISA

namespace aegir::kernels {

const TimeMixTables AEGIR_TIME_MIX_TABLE = {AEGIR_ISA::timeMixKernels<float>,
                                            AEGIR_ISA::timeMixKernels<double>};

}  // namespace aegir::kernels
