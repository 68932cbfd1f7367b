// Which of the compiled instruction sets the kernels use on this machine.
#pragma once

#include <type_traits>

namespace aegir::kernels {

enum class SimdLevel { Sse2, Avx2, Avx512 };

// The best level that the processor has, found once. The environment variable AEGIR_SIMD = sse2 | avx2 |
// avx512 asks for a lower one.
SimdLevel simdLevel();
const char* simdLevelName(SimdLevel level);

// The one of an operator's three tables that simdLevel() names.
template <class Tables>
const Tables& chosenTables(const Tables& sse2, const Tables& avx2, const Tables& avx512) {
  switch (simdLevel()) {
    case SimdLevel::Avx512: return avx512;
    case SimdLevel::Avx2: return avx2;
    case SimdLevel::Sse2: return sse2;
  }
  return sse2;
}

// A table's kernels for double or float.
template <class Real, class Tables>
const auto& kernelsFor(const Tables& tables) {
  if constexpr (std::is_same_v<Real, double>) {
    return tables.f64;
  } else {
    return tables.f32;
  }
}

}  // namespace aegir::kernels
