#define AEGIR_ISA avx2
#define AEGIR_DECODE_TABLE decodeAvx2
#include "native/kernels/decode_body.h"
