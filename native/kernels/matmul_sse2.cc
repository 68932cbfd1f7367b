#define AEGIR_ISA sse2
#define AEGIR_MATMUL_TABLE matmulSse2
#include "native/kernels/matmul_body.h"
