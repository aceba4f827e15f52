/* The CUDA driver calls this in cuInit, in the library that CUDA_INJECTION64_PATH names. */
#include "profiler/inject/cupti_session.h"

int InitializeInjection(void);

/* 1 = the library stays. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    return dl_cupti_session_start() ? 1 : 0;
}
