/* CUPTI's functions, looked up at run time in a libcupti: the one that the program has loaded, if
 * any, so that the process has only one. The library is never linked, so that the injected library
 * also loads without it, and works with CUPTI 12 as well as 13. The needed functions of the driver
 * are looked up in the same way. */
#ifndef DL_PROFILER_INJECT_CUPTI_API_H
#define DL_PROFILER_INJECT_CUPTI_API_H

#include <stdbool.h>

#include "common/status.h"
#include "profiler/inject/cupti_headers.h"

/* Results of cuptiGetVersion in CUDA 11.6, 12.8, 12.9, 13.0 (CUPTI's cupti_version.h). Before 11.6
 * records have another layout; since 12.8 events have unique ids; before 12.9 CUPTI may crash when
 * a buffer is refused; before 13.0 CUPTI owns a device's name, since 13.0 the reader must free the
 * name and the data of overhead records. */
#define DL_CUPTI_11_6 17
#define DL_CUPTI_12_8 26
#define DL_CUPTI_12_9 27
#define DL_CUPTI_13_0 130000

/* Functions required for any recording. */
#define DL_CUPTI_NEEDED(FUNCTION)       \
    FUNCTION(GetVersion)                \
    FUNCTION(GetTimestamp)              \
    FUNCTION(GetResultString)           \
    FUNCTION(GetCallbackName)           \
    FUNCTION(Subscribe)                 \
    FUNCTION(Unsubscribe)               \
    FUNCTION(EnableCallback)            \
    FUNCTION(ActivityEnable)            \
    FUNCTION(ActivityDisable)           \
    FUNCTION(ActivityRegisterCallbacks) \
    FUNCTION(ActivityFlushAll)          \
    FUNCTION(ActivityGetNextRecord)     \
    FUNCTION(ActivityGetNumDroppedRecords)

/* Functions that some versions lack; NULL then. */
#define DL_CUPTI_OPTIONAL(FUNCTION)        \
    FUNCTION(Subscribe_v2)                 \
    FUNCTION(SetThreadIdType)              \
    FUNCTION(ActivitySetAttribute)         \
    FUNCTION(ActivityEnableAllSyncRecords) \
    FUNCTION(ActivityEnableRuntimeApi)     \
    FUNCTION(ActivityEnableDriverApi)

typedef struct dl_cupti_api {
#define DL_CUPTI_MEMBER(name) __typeof__(cupti##name) *name; /* cupti<name> */
    DL_CUPTI_NEEDED(DL_CUPTI_MEMBER)
    DL_CUPTI_OPTIONAL(DL_CUPTI_MEMBER)
#undef DL_CUPTI_MEMBER
    uint32_t version; /* version of the library (cuptiGetVersion) */
} dl_cupti_api;

/* Functions of the driver; NULL if the process has no driver. */
#define DL_CUDA_FUNCTIONS(FUNCTION) \
    FUNCTION(DriverGetVersion)      \
    FUNCTION(CtxGetCurrent)         \
    FUNCTION(CtxSetCurrent)         \
    FUNCTION(CtxSynchronize)        \
    FUNCTION(DeviceGetPCIBusId)

typedef struct dl_cuda_api {
#define DL_CUDA_MEMBER(name) __typeof__(cu##name) *name; /* cu<name> */
    DL_CUDA_FUNCTIONS(DL_CUDA_MEMBER)
#undef DL_CUDA_MEMBER
    int version; /* cuDriverGetVersion; 0 = unknown */
} dl_cuda_api;

/* Finds the driver that the process has loaded; loads none itself. */
dl_cuda_api dl_cuda_api_find(void);

/* Loads the library `path`; for "" the first that exists of: the libcupti that the process has
 * loaded; the libcupti for the driver's version (13000 = CUDA 13.0; 0 = unknown) on the search path
 * or in the toolkit; the libcupti for the other major version. It stays loaded. DL_ERR_UNSUPPORTED
 * if there is none, if it lacks a needed function, or if it is older than CUDA 11.6's. */
dl_status dl_cupti_api_load(dl_cupti_api *api, const char *path, int driver_version,
                            dl_error *err) DL_MUST_CHECK;

/* Whether the reader, not CUPTI, must free a device's name and the data of overhead records. */
bool dl_cupti_gives_names(const dl_cupti_api *api);

/* Returns the library's name of a result ("CUPTI_ERROR_UNKNOWN"). */
const char *dl_cupti_result_name(const dl_cupti_api *api, CUptiResult result);

#endif
