/* Reads files written by dlprof run --dump-raw (profiler/inject/cupti_raw.h). */
#ifndef DL_TESTS_RAW_REPLAY_H
#define DL_TESTS_RAW_REPLAY_H

#include "profiler/inject/cupti_decode.h"

/* Decodes all buffers of `path`. DL_ERR_UNSUPPORTED if the library behind the decoder is not of the
 * version that wrote them; DL_ERR_FORMAT if the file has another format. */
dl_status raw_replay(const char *path, const dl_cupti_api *api, dl_cupti_decoder *decoder,
                     dl_error *err) DL_MUST_CHECK;

#endif
