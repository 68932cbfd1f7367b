#define AEGIR_ISA sse2
#define AEGIR_DECODE_TABLE decodeSse2
#include "native/kernels/decode_body.h"
