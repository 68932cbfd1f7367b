// exp and what is made of it, on vectors; a kernel's body includes this after simd.h.
#pragma once

#include "native/kernels/simd.h"

namespace aegir::kernels::AEGIR_ISA {

template <class Real>
struct ExpConstants;

// x = n ln2 + r with |r| <= ln2 / 2; `round` added and taken away rounds to an integer; terms of the Taylor
// series until the next one is below the rounding of the sum.
template <>
struct ExpConstants<float> {
  using Integer = int32_t;
  static constexpr float low = -87.0f, high = 88.0f, round = 12582912.0f;
  static constexpr float log2e = 1.44269504088896341f, ln2High = 0.693359375f, ln2Low = -2.12194440e-4f;
  static constexpr int terms = 7, mantissaBits = 23, exponentBias = 127;
};
template <>
struct ExpConstants<double> {
  using Integer = int64_t;
  static constexpr double low = -708.0, high = 709.0, round = 6755399441055744.0;
  static constexpr double log2e = 1.44269504088896340736, ln2High = 6.93147180369123816490e-01,
                          ln2Low = 1.90821492927058770002e-10;
  static constexpr int terms = 13, mantissaBits = 52, exponentBias = 1023;
};

template <class Real>
constexpr Real inverseFactorial(int n) {
  Real product = 1;
  for (int i = 2; i <= n; ++i) product *= Real(i);
  return Real(1) / product;
}

// To about 2 units in the last place; arguments are clamped to where the result is a normal number. NaN gives
// NaN.
template <class Real>
AEGIR_INLINE Vector<Real> exponential(Vector<Real> x) {
  using C = ExpConstants<Real>;
  using Integers = Vector<typename C::Integer>;
  x = x < C::low ? broadcast(C::low) : x;
  x = x > C::high ? broadcast(C::high) : x;
  const Vector<Real> n = (x * C::log2e + C::round) - C::round;
  const Vector<Real> r = (x - n * C::ln2High) - n * C::ln2Low;
  Vector<Real> sum = broadcast(inverseFactorial<Real>(C::terms));
#pragma GCC unroll 16
  for (int i = C::terms - 1; i >= 0; --i) sum = sum * r + inverseFactorial<Real>(i);
  const Integers exponent = __builtin_convertvector(n, Integers) + C::exponentBias;
  return sum * reinterpret_cast<Vector<Real>>(exponent << C::mantissaBits);
}

template <class Real>
AEGIR_INLINE Vector<Real> sigmoid(Vector<Real> x) {
  return Real(1) / (Real(1) + exponential<Real>(-x));
}

template <class Real>
AEGIR_INLINE Real sumOfLanes(Vector<Real> x) {
  Real sum = 0;
  for (int64_t l = 0; l < lanes<Real>; ++l) sum += x[l];
  return sum;
}

}  // namespace aegir::kernels::AEGIR_ISA
