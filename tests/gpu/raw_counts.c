/* Content of raw records of CUPTI: raw_counts FILE [EXPECTED] prints the number of activities of
 * each kind as JSON, and fails if it differs from the content of the file EXPECTED. They are read
 * by the libcupti found; exit status 77 if it is of another version than the one that wrote
 * them. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "profiler/inject/cupti_raw.h"
#include "tests/doubles/raw_replay.h"
#include "trace/activity/activity.h"

static unsigned long counts[DL_ACTIVITY_KIND_END];

static void append(const dl_activity *activity)
{
    counts[activity->kind]++;
}

/* Names of kernels are not needed. */
static uint32_t intern(const char *text)
{
    return text[0] != '\0';
}

static void meta(const char *key, const char *value)
{
    (void)key, (void)value;
}

static bool holds(const char *path, const char *text)
{
    DL_AUTOFREE char *expected = NULL;
    size_t bytes = 0;
    dl_error err = {0};
    const bool same =
        dl_file_read(path, &expected, &bytes, &err) == DL_OK && strcmp(expected, text) == 0;
    if (!same)
        fprintf(stderr, "%s holds something else: %s", path, expected != NULL ? expected : "");
    return same;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: raw_counts FILE [EXPECTED]\n");
        return 2;
    }
    dl_error err = {0};
    dl_cupti_api api;
    const dl_cuda_api cuda = {0};
    dl_status status = dl_cupti_api_load(&api, "", 0, &err);
    if (status == DL_OK) {
        dl_cupti_decoder *decoder =
            dl_cupti_decoder_new(&api, &cuda, (dl_activity_sink){append, intern, meta});
        status = raw_replay(argv[1], &api, decoder, &err);
        dl_cupti_decoder_free(decoder);
    }
    if (status != DL_OK) {
        dl_error_print(&err, "raw_counts", stderr);
        return status == DL_ERR_UNSUPPORTED ? 77 : 1;
    }
    char text[1024];
    size_t length = 0;
    for (int kind = DL_ACTIVITY_KERNEL; kind < DL_ACTIVITY_KIND_END; kind++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s\"%s\": %lu",
                                   kind == DL_ACTIVITY_KERNEL ? "{" : ", ",
                                   dl_activity_kind_name((dl_activity_kind)kind), counts[kind]);
    snprintf(text + length, sizeof text - length, "}\n");
    fputs(text, stdout);
    return argc > 2 && !holds(argv[2], text);
}
