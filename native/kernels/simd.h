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
template <class Real>
AEGIR_INLINE Vector<Real> loadStored(const Real* from) {
  return load(from);
}
AEGIR_INLINE Vector<float> loadStored(const uint16_t* from) {
  typedef uint16_t Bits __attribute__((vector_size(AEGIR_VECTOR_BYTES / 2)));
  typedef uint32_t Wide __attribute__((vector_size(AEGIR_VECTOR_BYTES)));
  Bits bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return reinterpret_cast<Vector<float>>(__builtin_convertvector(bits, Wide) << 16);
}

template <class Real>
AEGIR_INLINE void storeStored(Real* to, Vector<Real> x) {
  store(to, x);
}
AEGIR_INLINE void storeStored(uint16_t* to, Vector<float> x) {
  typedef uint16_t Bits __attribute__((vector_size(AEGIR_VECTOR_BYTES / 2)));
  typedef uint32_t Wide __attribute__((vector_size(AEGIR_VECTOR_BYTES)));
  const Wide wide = reinterpret_cast<Wide>(x);
  const Wide rounded = (wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16;  // to nearest, ties to even
  const Bits bits =
      __builtin_convertvector((wide & 0x7fffffffu) > 0x7f800000u ? Wide{} + 0x7fc0u : rounded, Bits);
  __builtin_memcpy(to, &bits, sizeof bits);
}

// The first `count` lanes of a vector in memory; zeros in the others.
template <class Real, class Storage>
AEGIR_INLINE Vector<Real> loadPart(const Storage* from, int64_t count) {
  if (count >= lanes<Real>) return loadStored(from);
  Storage part[lanes<Real>] = {};
  for (int64_t i = 0; i < count; ++i) part[i] = from[i];
  return loadStored(part);
}

template <class Real, class Storage>
AEGIR_INLINE void storePart(Storage* to, Vector<Real> x, int64_t count) {
  if (count >= lanes<Real>) return storeStored(to, x);
  Storage part[lanes<Real>];
  storeStored(part, x);
  for (int64_t i = 0; i < count; ++i) to[i] = part[i];
}

// Reads n values and fills up to `padded`, a multiple of the lanes, with zeros.
template <class Storage, class Real>
AEGIR_INLINE void loadRow(const Storage* from, Real* to, int64_t n, int64_t padded) {
  for (int64_t i = 0; i < padded; i += lanes<Real>) store(to + i, loadPart<Real>(from + i, n - i));
}

template <class Storage, class Real>
AEGIR_INLINE void storeRow(const Real* from, Storage* to, int64_t n) {
  for (int64_t i = 0; i < n; i += lanes<Real>) storePart<Real>(to + i, load(from + i), n - i);
}

// Asks for n values that are read soon; rows of one head lie too far apart for the processor to foresee them.
// Not to be called in a lambda that does nothing else: GCC takes such a function for one without effect and
// drops its calls.
template <class Storage>
AEGIR_INLINE void prefetchRow(const Storage* from, int64_t n) {
  constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(Storage));
  for (int64_t i = 0; i < n; i += line) __builtin_prefetch(from + i);
}

// The same into the second-level cache, for what would push the state out of the first; `write`: to be
// written.
template <bool write, class Storage>
AEGIR_INLINE void prefetchRowFar(const Storage* from, int64_t n) {
  constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(Storage));
  for (int64_t i = 0; i < n; i += line) __builtin_prefetch(from + i, write, 2);
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

// One step of the sum over lanes of x and y: the sums of lanes h apart of x beside those of y.
template <class Real, int64_t h>
AEGIR_INLINE Vector<Real> sumOfHalves(Vector<Real> x, Vector<Real> y) {
  Vector<Real> first, second;
  exchange<h, Real>(x, y, first, second, std::make_integer_sequence<int64_t, lanes<Real>>{});
  return first + second;
}

// Lane i of the result is the sum over the lanes of x[i], for `lanes` vectors x; x is overwritten.
template <class Real, int64_t h = lanes<Real> / 2>
AEGIR_INLINE Vector<Real> sumOfEach(Vector<Real>* x) {
  if constexpr (h == 0) {
    return x[0];
  } else {
#pragma GCC unroll 8
    for (int64_t i = 0; i < h; ++i) x[i] = sumOfHalves<Real, h>(x[i], x[i + h]);
    return sumOfEach<Real, h / 2>(x);
  }
}

}  // namespace aegir::kernels::AEGIR_ISA
