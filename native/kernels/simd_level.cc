#include "native/kernels/simd_level.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "native/core/error.h"

namespace aegir::kernels {
namespace {

SimdLevel supportedLevel() {
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return !avx2 ? SimdLevel::Sse2 : avx512 ? SimdLevel::Avx512 : SimdLevel::Avx2;
}

SimdLevel chosenLevel() {
  const SimdLevel supported = supportedLevel();
  const char* wish = std::getenv("AEGIR_SIMD");
  if (wish == nullptr || *wish == '\0') return supported;
  for (SimdLevel level : {SimdLevel::Sse2, SimdLevel::Avx2, SimdLevel::Avx512}) {
    if (std::string(wish) == simdLevelName(level)) return std::min(level, supported);
  }
  fail(ErrorCode::Argument, "AEGIR_SIMD: expected sse2, avx2 or avx512, got ", wish);
}

}  // namespace

SimdLevel simdLevel() {
  static const SimdLevel level = chosenLevel();
  return level;
}

const char* simdLevelName(SimdLevel level) {
  switch (level) {
    case SimdLevel::Sse2: return "sse2";
    case SimdLevel::Avx2: return "avx2";
    case SimdLevel::Avx512: return "avx512";
  }
  return "sse2";
}

}  // namespace aegir::kernels
