#define AEGIR_ISA avx2
#define AEGIR_MATMUL_TABLE matmulAvx2
#include "native/kernels/matmul_body.h"
