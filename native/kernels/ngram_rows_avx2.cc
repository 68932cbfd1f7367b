#define AEGIR_ISA avx2
#define AEGIR_NGRAM_ROWS_TABLE ngramRowsAvx2
#include "native/kernels/ngram_rows_body.h"
