/* Ids of the texts that decoded records name, with a cache before the sink's intern: nearly every
 * record names what one shortly before it named. One thread. */
#ifndef DL_PROFILER_INJECT_CUPTI_NAMES_H
#define DL_PROFILER_INJECT_CUPTI_NAMES_H

#include "profiler/inject/cupti_decode.h"

typedef struct dl_cupti_names dl_cupti_names;

/* Borrows `api`. */
dl_cupti_names *dl_cupti_names_new(const dl_cupti_api *api, dl_activity_sink sink);
void dl_cupti_names_free(dl_cupti_names *names);

/* Id of a kernel's name, NULL or text of CUPTI's. The text counts, not the pointer: another module
 * may come to lie where one was unloaded. */
uint32_t dl_cupti_name_kernel(dl_cupti_names *names, const char *name);

/* Grid and block in threads, shared memory in bytes of a block, registers of a thread. */
typedef struct dl_launch_shape {
    int32_t grid[3], block[3];
    uint32_t shared_bytes, registers;
} dl_launch_shape;

/* Id of "grid 64x1x1 block 256x1x1 shared 0 regs 32". */
uint32_t dl_cupti_name_shape(dl_cupti_names *names, const dl_launch_shape *shape);

/* Id of the function that a callback id stands for: "cudaLaunchKernel". */
uint32_t dl_cupti_name_call(dl_cupti_names *names, CUpti_CallbackDomain domain,
                            CUpti_CallbackId call);

/* Cuts CUPTI's suffixes off a function's name: "cudaMemcpyAsync_ptsz_v7000" is cudaMemcpyAsync with
 * a default stream of each thread; cuMemcpyHtoDAsync_v2 is a function's own name. */
void dl_cupti_cut_call_name(char *name);

#endif
