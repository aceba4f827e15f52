/* Reads back what dlprof run --dump-raw wrote (profiler/inject/cupti_raw.h). */
#ifndef DL_TESTS_RAW_REPLAY_H
#define DL_TESTS_RAW_REPLAY_H

#include "profiler/inject/cupti_decode.h"

/* Decodes all buffers of `path`. The library behind the decoder must be of the version that wrote
 * them: DL_ERR_UNSUPPORTED if not. DL_ERR_FORMAT if it is no such file. */
dl_status raw_replay(const char *path, const dl_cupti_api *api, dl_cupti_decoder *decoder,
                     dl_error *err) DL_MUST_CHECK;

#endif
