/* Prints the contents of traces for test_nvtx.sh, one line for each activity and meta value:
 *   RANGE|MARK|COLLECTIVE|COMM name=<text> detail=<text> bytes=<n> comm=<hex> peer=<n> count=<n>
 *   meta <key>=<value>
 * Usage: nvtx_dump TRACE... */
#include <inttypes.h>
#include <stdio.h>

#include "trace/dlt/dlt.h"

static void print_activity(const dl_trace *trace, const dl_activity *activity)
{
    printf("%s name=%s detail=%s bytes=%" PRIu64 " comm=%" PRIx64 " peer=%u count=%u\n",
           dl_activity_kind_name((dl_activity_kind)activity->kind), trace->strings[activity->name],
           trace->strings[activity->detail], activity->bytes, activity->object, activity->peer,
           activity->count);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        dl_trace trace = {0};
        dl_error err = {0};
        if (dl_trace_read(&trace, argv[i], &err) != DL_OK) {
            dl_error_print(&err, "nvtx_dump", stderr);
            return 1;
        }
        for (size_t a = 0; a < trace.activity_count; a++)
            if (trace.activities[a].kind >= DL_ACTIVITY_RANGE &&
                trace.activities[a].kind <= DL_ACTIVITY_COMM)
                print_activity(&trace, &trace.activities[a]);
        for (size_t m = 0; m < trace.meta_count; m++)
            printf("meta %s=%s\n", trace.meta[2 * m], trace.meta[2 * m + 1]);
        printf("meta complete=%d\n", trace.complete);
        dl_trace_free(&trace);
    }
    return 0;
}
