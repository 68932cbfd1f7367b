// Vectors of the instruction set that a translation unit is compiled for, on GCC's vector extensions. A
// kernel's body includes this inside a file `<op>_<isa>.cc` that defines AEGIR_ISA, the namespace that keeps
// the sets apart. Nothing from the standard library is called here or in a body: the linker would merge such
// functions across instruction sets.
#pragma once

#ifndef AEGIR_ISA
#error "define AEGIR_ISA before including simd.h"
#endif

#include <cstdint>
#include <utility>

#if defined(__AVX512F__)
#define AEGIR_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define AEGIR_VECTOR_BYTES 32
#else
#define AEGIR_VECTOR_BYTES 16
#endif

#define AEGIR_INLINE inline __attribute__((always_inline))

namespace aegir::kernels::AEGIR_ISA {

template <class Real>
struct VectorOf {
  typedef Real type __attribute__((vector_size(AEGIR_VECTOR_BYTES)));
};
template <class Real>
using Vector = typename VectorOf<Real>::type;

template <class Real>
constexpr int64_t lanes = AEGIR_VECTOR_BYTES / static_cast<int64_t>(sizeof(Real));

template <class Real>
constexpr int64_t roundUpToLanes(int64_t n) {
  return (n + lanes<Real> - 1) / lanes<Real> * lanes<Real>;
}

template <class Real>
AEGIR_INLINE Vector<Real> load(const Real* from) {
  Vector<Real> x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}

template <class Real>
AEGIR_INLINE void store(Real* to, Vector<Real> x) {
  __builtin_memcpy(to, &x, sizeof x);
}

template <class Real>
AEGIR_INLINE Vector<Real> broadcast(Real x) {
  return x - Vector<Real>{};
}

// bf16 is carried as its bit pattern.
AEGIR_INLINE float toReal(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float x;
  __builtin_memcpy(&x, &wide, sizeof x);
  return x;
}
AEGIR_INLINE float toReal(float x) { return x; }
AEGIR_INLINE double toReal(double x) { return x; }

AEGIR_INLINE void fromReal(float x, uint16_t& bits) {
  uint32_t wide;
  __builtin_memcpy(&wide, &x, sizeof wide);
  const bool isNan = (wide & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = wide + 0x7fffu + ((wide >> 16) & 1u);  // to nearest, ties to even
  bits = isNan ? uint16_t{0x7fc0} : static_cast<uint16_t>(rounded >> 16);
}
AEGIR_INLINE void fromReal(float x, float& to) { to = x; }
AEGIR_INLINE void fromReal(double x, double& to) { to = x; }

// Reads n values and fills up to `padded` with zeros.
template <class Storage, class Real>
AEGIR_INLINE void loadRow(const Storage* from, Real* to, int64_t n, int64_t padded) {
  for (int64_t i = 0; i < n; ++i) to[i] = toReal(from[i]);
  for (int64_t i = n; i < padded; ++i) to[i] = 0;
}

// Asks for n values that are read soon; rows of one head lie too far apart for the processor to foresee them.
// Not to be called in a lambda that does nothing else: GCC takes such a function for one without effect and
// drops its calls.
template <class Storage>
AEGIR_INLINE void prefetchRow(const Storage* from, int64_t n) {
  constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(Storage));
  for (int64_t i = 0; i < n; i += line) __builtin_prefetch(from + i);
}

template <class Storage, class Real>
AEGIR_INLINE void storeRow(const Real* from, Storage* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) fromReal(from[i], to[i]);
}

// Lane l of a pair exchange in blocks of 2h lanes: `first` is x's lower halves beside y's lower halves,
// `second` the upper ones.
template <int64_t h>
constexpr int64_t lowerLane(int64_t l, int64_t count) {
  return l % (2 * h) < h ? l : count + l - h;
}
template <int64_t h>
constexpr int64_t upperLane(int64_t l, int64_t count) {
  return l % (2 * h) < h ? l + h : count + l;
}

template <int64_t h, class Real, int64_t... l>
AEGIR_INLINE void exchange(Vector<Real> x, Vector<Real> y, Vector<Real>& first, Vector<Real>& second,
                           std::integer_sequence<int64_t, l...>) {
  constexpr int64_t count = lanes<Real>;
  first = __builtin_shufflevector(x, y, lowerLane<h>(l, count)...);
  second = __builtin_shufflevector(x, y, upperLane<h>(l, count)...);
}

// Transposes a square of `lanes` vectors in place.
template <class Real, int64_t h = lanes<Real> / 2>
AEGIR_INLINE void transpose(Vector<Real>* x) {
  constexpr auto all = std::make_integer_sequence<int64_t, lanes<Real>>{};
  for (int64_t block = 0; block < lanes<Real>; block += 2 * h) {
    for (int64_t i = block; i < block + h; ++i) exchange<h, Real>(x[i], x[i + h], x[i], x[i + h], all);
  }
  if constexpr (h > 1) transpose<Real, h / 2>(x);
}

// Lane i of the result is the sum over the lanes of x[i], for `lanes` vectors x; x is overwritten.
template <class Real, int64_t h = lanes<Real> / 2>
AEGIR_INLINE Vector<Real> sumOfEach(Vector<Real>* x) {
  constexpr auto all = std::make_integer_sequence<int64_t, lanes<Real>>{};
  for (int64_t i = 0; i < h; ++i) {
    Vector<Real> first, second;
    exchange<h, Real>(x[i], x[i + h], first, second, all);
    x[i] = first + second;
  }
  if constexpr (h > 1) {
    return sumOfEach<Real, h / 2>(x);
  } else {
    return x[0];
  }
}

}  // namespace aegir::kernels::AEGIR_ISA
