/* Which activities and calls CUPTI is asked to record, by the capture's settings. */
#ifndef DL_PROFILER_INJECT_CUPTI_KINDS_H
#define DL_PROFILER_INJECT_CUPTI_KINDS_H

#include <stdbool.h>

#include "profiler/inject/cupti_api.h"
#include "profiler/inject/settings.h"

#define DL_REFUSED_BYTES 256

/* Switches on what `settings` want. CUPTI may refuse single kinds, which depend on the device and
 * on rights: they are listed in `refused` ("memset (CUPTI_ERROR_UNKNOWN), ..."; "" = none). False
 * if there are no kernels among those that it took. */
bool dl_cupti_kinds_enable(const dl_cupti_api *api, const dl_capture_settings *settings,
                           char refused[DL_REFUSED_BYTES]);

/* Switches everything off again. */
void dl_cupti_kinds_disable(const dl_cupti_api *api, const dl_capture_settings *settings);

#endif
