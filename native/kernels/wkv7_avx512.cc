#define AEGIR_ISA avx512
#define AEGIR_WKV7_TABLE wkv7Avx512
#include "native/kernels/wkv7_body.h"
