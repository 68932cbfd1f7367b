#define AEGIR_ISA sse2
#define AEGIR_WKV7_TABLE wkv7Sse2
#include "native/kernels/wkv7_body.h"
