// The bits of a hashed n-gram (ngram_embedding.h), for whole numbers and for vectors of them. Always inline:
// the linker would merge functions compiled for several instruction sets.
#pragma once

#include <cstdint>

namespace aegir::kernels {

constexpr uint64_t ngramHashBase = 0x9e3779b97f4a7c15;
constexpr uint64_t shapeSalt = 32;

// The finaliser of MurmurHash3.
template <class Bits>
__attribute__((always_inline)) inline Bits mixBits(Bits h) {
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

}  // namespace aegir::kernels
