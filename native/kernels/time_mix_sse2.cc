#define AEGIR_ISA sse2
#define AEGIR_TIME_MIX_TABLE timeMixSse2
#include "native/kernels/time_mix_body.h"
