#define AEGIR_ISA avx512
#define AEGIR_MATMUL_TABLE matmulAvx512
#include "native/kernels/matmul_body.h"
