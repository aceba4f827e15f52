/* Decodes CUPTI's activity records into dl_activity. It reads only fields that lie at the same
 * place in every version since CUDA 11.6, and others if the library's version has them; the library
 * itself steps through the records, whose sizes may differ from the headers'.
 *
 *   CUPTI's record                    becomes
 *   CONCURRENT_KERNEL                 KERNEL
 *   MEMCPY, MEMCPY2 (peer to peer)    MEMCPY
 *   MEMSET                            MEMSET
 *   GRAPH_TRACE                       GRAPH
 *   RUNTIME, DRIVER                   CALL; names without CUPTI's suffix ("_v7000", "_ptsz")
 *   SYNCHRONIZATION                   SYNC
 *   CUDA_EVENT                        EVENT at the start of the CALL of its correlation, if that is
 *                                     in the same buffer, else at the end of the record before it:
 *                                     CUPTI gives it no time
 *   OVERHEAD                          OVERHEAD
 *   DEVICE                            meta keys device.N.name, uuid, pci, sm_count, memory_bytes,
 *                                     compute_capability
 *   CONTEXT                           nothing; gives, like kernels, the device of SYNC and EVENT
 *
 * Records whose times CUPTI lost (0, or ending before they begin) are counted and left out. */
#ifndef DL_PROFILER_INJECT_CUPTI_DECODE_H
#define DL_PROFILER_INJECT_CUPTI_DECODE_H

#include <stdbool.h>

#include "profiler/inject/cupti_api.h"
#include "profiler/inject/settings.h"
#include "trace/activity/activity.h"

/* Receives decoded records, whose texts are ids returned by `intern`. */
typedef struct dl_activity_sink {
    void (*append)(const dl_activity *activity);
    uint32_t (*intern)(const char *text);
    void (*meta)(const char *key, const char *value);
} dl_activity_sink;

/* Counts of the records so far. */
typedef struct dl_decode_counts {
    uint64_t records;         /* records of all kinds */
    uint64_t lost_timestamps; /* records without times, which are left out */
    uint64_t unknown;         /* records of kinds not listed above */
} dl_decode_counts;

typedef struct dl_cupti_decoder dl_cupti_decoder;

/* `api` is borrowed; `cuda` may be NULL (then no device.N.pci). Not thread-safe. */
dl_cupti_decoder *dl_cupti_decoder_new(const dl_cupti_api *api, const dl_cuda_api *cuda,
                                       dl_activity_sink sink);
void dl_cupti_decoder_free(dl_cupti_decoder *decoder);

/* Drops driver calls outside the preset, which CUPTI before 12.6 records with the others. A new
 * decoder starts with DL_CAPTURE_FULL. */
void dl_cupti_decoder_choose(dl_cupti_decoder *decoder, dl_capture_preset preset);

/* Decodes the first `bytes` bytes of a buffer as CUPTI delivered it, and frees memory owned by its
 * records. */
void dl_cupti_decode(dl_cupti_decoder *decoder, uint8_t *buffer, size_t bytes);

dl_decode_counts dl_cupti_decoder_counts(const dl_cupti_decoder *decoder);

/* Selects the activities and calls that CUPTI records, by the capture's settings. */
#define DL_REFUSED_BYTES 256

/* Switches on the kinds that `settings` select. CUPTI may refuse single kinds, depending on the
 * device and on permissions; `refused` lists them ("memset (CUPTI_ERROR_UNKNOWN), ..."; "" = none).
 * Returns false if CUPTI refused kernels. */
bool dl_cupti_kinds_enable(const dl_cupti_api *api, const dl_capture_settings *settings,
                           char refused[DL_REFUSED_BYTES]);

/* Switches these kinds off again. */
void dl_cupti_kinds_disable(const dl_cupti_api *api, const dl_capture_settings *settings);

/* Cuts CUPTI's suffixes off a function's name: "cudaMemcpyAsync_ptsz_v7000" is cudaMemcpyAsync with
 * a per-thread default stream; cuMemcpyHtoDAsync_v2 is a function's own name. */
void dl_cupti_cut_call_name(char *name);

#endif
