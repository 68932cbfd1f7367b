#define AEGIR_ISA avx512
#define AEGIR_TIME_MIX_TABLE timeMixAvx512
#include "native/kernels/time_mix_body.h"
