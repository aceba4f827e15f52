/* The NVTX front end: the ranges, marks and names that a program and its libraries give through
 * NVTX, as activities.
 *
 *   push/pop, start/end    RANGE with text, domain and (starting) thread; NCCL's calls become
 *                          COLLECTIVE and COMM (nccl.h)
 *   mark                   MARK
 *   nvtxNameOsThread       meta "thread.<tid>" = name
 *
 * NVTX is a library of headers, so that each program and library has a separate copy; each copy
 * loads the file that NVTX_INJECTION64_PATH names and calls the two entries below once. Both do
 * nothing and return 0 if nothing is recorded; NVTX then costs the program no more than without a
 * tool.
 *
 * Ranges still open at the end of the recording are recorded up to it. A pop without a push, an end
 * without a start, a missing text and payloads of unknown layout are ignored. */
#ifndef DL_PROFILER_INJECT_NVTX_H
#define DL_PROFILER_INJECT_NVTX_H

#include <nvtx3/nvToolsExtPayload.h>

#include "profiler/inject/nccl.h"
#include "profiler/inject/nvtx_payload.h"

#define NVTX_NO_IMPL

/* Fills the function table of one copy of NVTX; 1 = done. */
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);

/* As above for an extension of NVTX; 0 for all but the payload extension, without which a range
 * that a library ends by nvtxRangePopPayload would never end. */
int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);

/* A domain of NVTX, with its payload schemas. Never freed before the process ends, since a program
 * may use a handle after it has destroyed the domain; a new domain with the name of a destroyed one
 * reuses it. */
typedef struct dl_nvtx_domain dl_nvtx_domain;

#endif
