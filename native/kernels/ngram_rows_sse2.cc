#define AEGIR_ISA sse2
#define AEGIR_NGRAM_ROWS_TABLE ngramRowsSse2
#include "native/kernels/ngram_rows_body.h"
