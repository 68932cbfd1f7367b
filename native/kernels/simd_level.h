// Which of the compiled instruction sets the kernels use on this machine.
#pragma once

namespace aegir::kernels {

enum class SimdLevel { Sse2, Avx2, Avx512 };

// The best level that the processor has, found once. The environment variable AEGIR_SIMD = sse2 | avx2 |
// avx512 asks for a lower one.
SimdLevel simdLevel();
const char* simdLevelName(SimdLevel level);

}  // namespace aegir::kernels
