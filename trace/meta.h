/* Numbers and texts among a trace's meta keys (dlt.h), all values of which are text. */
#ifndef DL_TRACE_META_H
#define DL_TRACE_META_H

#include <stdint.h>

#include "trace/dlt.h"

/* Value of a meta key, "" if it is missing. Borrowed. */
const char *dl_trace_meta_text(const dl_trace *trace, const char *key);

/* A whole number in low..high; `fallback` where it is missing or anything else. */
int64_t dl_trace_meta_int(const dl_trace *trace, const char *key, int64_t low, int64_t high,
                          int64_t fallback);

/* A whole number of 0 and more into *number; `fallback` where it is missing. DL_ERR_PARSE, with
 * the trace's path and the key, for anything else; *number is untouched then. */
dl_status dl_trace_meta_read_int(const dl_trace *trace, const char *key, int64_t fallback,
                                 int64_t *number, dl_error *err) DL_MUST_CHECK;

#endif
