/* From CUPTI's activity records to ours. Of a record only those fields are read that lie at the
 * same place in every version since CUDA 11.6, others where the library's version says that they
 * are there; records are stepped through by the library itself, whose sizes may be other than those
 * of the headers.
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
 *   CONTEXT                           nothing; gives the device of a SYNC
 *
 * Records whose times CUPTI lost (0, or ending before they begin) are counted and left out.
 */
#ifndef DL_PROFILER_INJECT_CUPTI_DECODE_H
#define DL_PROFILER_INJECT_CUPTI_DECODE_H

#include <stdbool.h>

#include "profiler/inject/cupti_api.h"
#include "profiler/inject/settings.h"
#include "trace/activity/activity.h"

/* Where decoded records go; ids of texts come from `intern`. */
typedef struct dl_activity_sink {
    void (*append)(const dl_activity *activity);
    uint32_t (*intern)(const char *text);
    void (*meta)(const char *key, const char *value);
} dl_activity_sink;

/* What was seen so far. */
typedef struct dl_decode_counts {
    uint64_t records;         /* of all kinds */
    uint64_t lost_timestamps; /* left out */
    uint64_t unknown;         /* of kinds that are not in the table above */
} dl_decode_counts;

typedef struct dl_cupti_decoder dl_cupti_decoder;

/* `api` is borrowed; `cuda` may be NULL (then no device.N.pci). One thread. */
dl_cupti_decoder *dl_cupti_decoder_new(const dl_cupti_api *api, const dl_cuda_api *cuda,
                                       dl_activity_sink sink);
void dl_cupti_decoder_free(dl_cupti_decoder *decoder);

/* Leaves out calls of the driver that are not the preset's, which CUPTI before 12.6 records with
 * the others. A new decoder takes those of DL_CAPTURE_FULL. */
void dl_cupti_decoder_choose(dl_cupti_decoder *decoder, dl_capture_preset preset);

/* Decodes the first `bytes` bytes of a buffer as CUPTI delivered it, and frees what its records
 * own.
 */
void dl_cupti_decode(dl_cupti_decoder *decoder, uint8_t *buffer, size_t bytes);

dl_decode_counts dl_cupti_decoder_counts(const dl_cupti_decoder *decoder);

/* Which activities and calls CUPTI is asked to record, by the capture's settings. */
#define DL_REFUSED_BYTES 256

/* Switches on what `settings` want. CUPTI may refuse single kinds, which depend on the device and
 * on rights: they are listed in `refused` ("memset (CUPTI_ERROR_UNKNOWN), ..."; "" = none). False
 * if there are no kernels among those that it took. */
bool dl_cupti_kinds_enable(const dl_cupti_api *api, const dl_capture_settings *settings,
                           char refused[DL_REFUSED_BYTES]);

/* Switches everything off again. */
void dl_cupti_kinds_disable(const dl_cupti_api *api, const dl_capture_settings *settings);

/* Cuts CUPTI's suffixes off a function's name: "cudaMemcpyAsync_ptsz_v7000" is cudaMemcpyAsync with
 * a default stream of each thread; cuMemcpyHtoDAsync_v2 is a function's own name. */
void dl_cupti_cut_call_name(char *name);

#endif
