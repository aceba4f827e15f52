/* What raw records of CUPTI hold: raw_counts FILE [LIBRARY] prints the number of activities of each
 * kind as JSON, read by that libcupti or the one that is found. */
#include <stdio.h>

#include "profiler/inject/cupti_raw.h"
#include "tests/doubles/raw_replay.h"
#include "trace/activity/activity.h"

static unsigned long counts[DL_ACTIVITY_KIND_END];

static void append(const dl_activity *activity)
{
    counts[activity->kind]++;
}

/* Names of kernels are not asked for. */
static uint32_t intern(const char *text)
{
    return text[0] != '\0';
}

static void meta(const char *key, const char *value)
{
    (void)key, (void)value;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: raw_counts FILE [LIBRARY]\n");
        return 2;
    }
    dl_error err = {0};
    dl_cupti_api api;
    const dl_cuda_api cuda = {0};
    dl_status status = dl_cupti_api_load(&api, argc > 2 ? argv[2] : "", 0, &err);
    if (status == DL_OK) {
        dl_cupti_decoder *decoder =
            dl_cupti_decoder_new(&api, &cuda, (dl_activity_sink){append, intern, meta});
        status = raw_replay(argv[1], &api, decoder, &err);
        dl_cupti_decoder_free(decoder);
    }
    if (status != DL_OK) {
        dl_error_print(&err, "raw_counts", stderr);
        return 1;
    }
    for (int kind = DL_ACTIVITY_KERNEL; kind < DL_ACTIVITY_KIND_END; kind++)
        printf("%s\"%s\": %lu", kind == DL_ACTIVITY_KERNEL ? "{" : ", ",
               dl_activity_kind_name((dl_activity_kind)kind), counts[kind]);
    printf("}\n");
    return 0;
}
