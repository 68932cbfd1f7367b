// What time_mix.cc hands to the kernels of one instruction set: raw pointers of contiguous rows. Widths are
// multiples of the vector width. Gradients of parameters are added to; all others are written.
#pragma once

#include <cstdint>

namespace aegir::kernels {

constexpr int64_t maxShiftMixes = 6;

// Tokens of one sequence.
template <class Real>
struct ShiftMix {
  int64_t tokens, width, mixes;
  const Real *x, *carried;  // carried: (D) or null, zeros
  const Real* mu;           // (C,D)
  Real* mixed[maxShiftMixes];
};
template <class Real>
struct ShiftMixBackward {
  int64_t tokens, width, mixes;
  const Real *x, *carried, *mu;
  const Real* gradMixed[maxShiftMixes];
  Real* gradX;
  Real* gradCarried;  // (D), all zeros on entry
  Real* gradMu;       // (C,D)
};

template <class Real>
struct Decay {
  int64_t count;
  const Real* z;
  Real* decay;
};
template <class Real>
struct DecayBackward {
  int64_t count;
  const Real *z, *decay, *gradDecay;
  Real* gradZ;
};

template <class Real>
struct ValueMix {
  int64_t count;
  const Real *value, *first, *z;
  Real* mixed;
};
template <class Real>
struct ValueMixBackward {
  int64_t count;
  const Real *value, *first, *z, *gradMixed;
  Real *gradValue, *gradFirst, *gradZ;
};

template <class Real>
struct KeyNorm {
  int64_t rows, heads, headSize;
  const Real *k, *aLogits, *kK, *kA;
  Real *key, *removal, *gated;
};
template <class Real>
struct KeyNormBackward {
  int64_t rows, heads, headSize;
  const Real *k, *aLogits, *kK, *kA, *gradKey, *gradRemoval, *gradGated;
  Real *gradK, *gradALogits, *gradKK, *gradKA;
};

template <class Real>
struct NormBonusGate {
  int64_t rows, heads, headSize;
  const Real *o, *r, *k, *v, *gate, *rK, *gain, *bias;
  Real* result;
};
template <class Real>
struct NormBonusGateBackward {
  int64_t rows, heads, headSize;
  const Real *o, *r, *k, *v, *gate, *rK, *gain, *bias, *gradResult;
  Real *gradO, *gradR, *gradK, *gradV, *gradGate, *gradRK, *gradGain, *gradBias;
};

template <class Real>
struct SquaredRelu {
  int64_t count;
  const Real* x;
  Real* result;
};
template <class Real>
struct SquaredReluBackward {
  int64_t count;
  const Real *x, *gradResult;
  Real* gradX;
};

// x gain + bias, in place.
template <class Real>
struct RowsAffine {
  int64_t rows, width;
  const Real *gain, *bias;
  Real* x;
};

template <class Real>
struct TimeMixKernels {
  int64_t lanes;
  void (*shiftMix)(const ShiftMix<Real>&);
  void (*shiftMixBackward)(const ShiftMixBackward<Real>&);
  void (*decay)(const Decay<Real>&);
  void (*decayBackward)(const DecayBackward<Real>&);
  void (*valueMix)(const ValueMix<Real>&);
  void (*valueMixBackward)(const ValueMixBackward<Real>&);
  void (*keyNorm)(const KeyNorm<Real>&);
  void (*keyNormBackward)(const KeyNormBackward<Real>&);
  void (*normBonusGate)(const NormBonusGate<Real>&);
  void (*normBonusGateBackward)(const NormBonusGateBackward<Real>&);
  void (*squaredRelu)(const SquaredRelu<Real>&);
  void (*squaredReluBackward)(const SquaredReluBackward<Real>&);
  void (*rowsAffine)(const RowsAffine<Real>&);
};

struct TimeMixTables {
  TimeMixKernels<float> f32;
  TimeMixKernels<double> f64;
};

extern const TimeMixTables timeMixSse2, timeMixAvx2, timeMixAvx512;

}  // namespace aegir::kernels
