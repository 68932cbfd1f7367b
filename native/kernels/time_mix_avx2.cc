#define AEGIR_ISA avx2
#define AEGIR_TIME_MIX_TABLE timeMixAvx2
#include "native/kernels/time_mix_body.h"
