/* The order of calls by which CUPTI is set up: subscription, attributes, buffers, kinds, callbacks.
 */
#ifndef DL_PROFILER_INJECT_CUPTI_SETUP_H
#define DL_PROFILER_INJECT_CUPTI_SETUP_H

#include <stdbool.h>

#include "profiler/inject/cupti_api.h"
#include "profiler/inject/settings.h"

/* What CUPTI calls. */
typedef struct dl_cupti_callbacks {
    CUpti_CallbackFunc event;
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
} dl_cupti_callbacks;

/* Sets CUPTI up and starts recording. On failure CUPTI is as before, and the capture's log says
 * why, with the name of the other tool if one has CUPTI already. */
bool dl_cupti_set_up(const dl_cupti_api *api, const dl_capture_settings *settings,
                     const dl_cupti_callbacks *callbacks, CUpti_SubscriberHandle *subscriber);

#endif
