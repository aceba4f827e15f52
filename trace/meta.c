#include "trace/meta.h"

#include "common/units.h"

const char *dl_trace_meta_text(const dl_trace *trace, const char *key)
{
    const char *value = dl_trace_meta(trace, key);
    return value != NULL ? value : "";
}

int64_t dl_trace_meta_int(const dl_trace *trace, const char *key, int64_t low, int64_t high,
                          int64_t fallback)
{
    const char *text = dl_trace_meta(trace, key);
    int64_t number;
    if (text == NULL || dl_parse_int(text, low, high, &number, NULL) != DL_OK) return fallback;
    return number;
}

dl_status dl_trace_meta_read_int(const dl_trace *trace, const char *key, int64_t fallback,
                                 int64_t *number, dl_error *err)
{
    const char *text = dl_trace_meta(trace, key);
    if (text == NULL) {
        *number = fallback;
        return DL_OK;
    }
    dl_error inner = {0};
    if (dl_parse_int(text, 0, INT64_MAX, number, &inner) == DL_OK) return DL_OK;
    return dl_error_set_at(err, DL_ERR_PARSE, trace->path, 0, "%s: %s", key, inner.text);
}
