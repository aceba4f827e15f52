/* What a Chrome trace says of an activity: category, title and args, as activity_export.h lists
 * them. */
#ifndef DL_TRACE_ACTIVITY_LABEL_H
#define DL_TRACE_ACTIVITY_LABEL_H

#include "common/chrome_trace.h"
#include "trace/dlt.h"

enum { DL_LABEL_TITLE_BYTES = 80, DL_LABEL_ARGS_MAX = 10 };

/* Points into itself and into what it was made from: not to be copied. */
typedef struct dl_activity_label {
    const char *category, *title;
    dl_chrome_arg args[DL_LABEL_ARGS_MAX];
    int arg_count;
    char title_text[DL_LABEL_TITLE_BYTES];
    char object_text[24];
    uint32_t grid[3], block[3];
} dl_activity_label;

/* Describes *activity, whose name and detail are strings of `trace`. `short_name` is the readable
 * name of a KERNEL and not used for others. */
void dl_activity_label_init(dl_activity_label *label, const dl_activity *activity,
                            const dl_trace *trace, const char *short_name);

#endif
