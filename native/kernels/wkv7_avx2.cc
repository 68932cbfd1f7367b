#define AEGIR_ISA avx2
#define AEGIR_WKV7_TABLE wkv7Avx2
#include "native/kernels/wkv7_body.h"
