#define AEGIR_ISA avx512
#define AEGIR_DECODE_TABLE decodeAvx512
#include "native/kernels/decode_body.h"
