#include "profiler/bench/overhead_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "profiler/inject/settings.h"
#include "trace/activity/capture_cost.h"
#include "trace/dlt/dlt.h"

#define FILE_PART "dlprof/overhead.dlt"

char *dl_overhead_file_default(void)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data != NULL && data[0] != '\0') return dl_format("%s/" FILE_PART, data);
    if (home != NULL && home[0] != '\0') return dl_format("%s/.local/share/" FILE_PART, home);
    return NULL;
}

/* The file's text, whatever it is. */
static dl_status read_text(const char *path, int preset, char **text, dl_error *err)
{
    dl_trace trace = {0};
    dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    const char *kind = dl_trace_meta(&trace, "kind");
    char *key = dl_format(DL_CAPTURE_COST_KEY ".%s", dl_capture_preset_names[preset]);
    const char *found = dl_trace_meta(&trace, key);
    if (kind == NULL || strcmp(kind, "overhead") != 0 || found == NULL) {
        status = dl_error_set_at(err, DL_ERR_DATA, path, 0,
                                 "is not of dlprof bench overhead: it does not say %s", key);
    } else {
        *text = dl_strdup(found);
    }
    free(key);
    dl_trace_free(&trace);
    return status;
}

static char *unknown(const char *path, const char *why)
{
    return dl_format(DL_CAPTURE_COST_UNKNOWN " (%s: %s)", path, why);
}

/* A text that is not good for this host becomes the reason. */
static char *check_host(const char *path, char *text)
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    dl_capture_figures figures;
    dl_error err = {0};
    const dl_status status = dl_capture_figures_parse(text, &figures, &err);
    if (status == DL_OK && strcmp(figures.host, host) == 0) return text;
    if (status == DL_ERR_DATA) return text; /* unknown there too, with the reason */
    char *why = status == DL_OK ? dl_format("is of host %s", figures.host) : dl_strdup(err.text);
    char *made = unknown(path, why);
    free(why);
    free(text);
    return made;
}

dl_status dl_overhead_file_cost(const char *given, int preset, char **text, dl_error *err)
{
    if (given != NULL) {
        dl_capture_figures figures;
        const dl_status status = read_text(given, preset, text, err);
        if (status != DL_OK) return status;
        dl_error why = {0};
        if (dl_capture_figures_parse(*text, &figures, &why) != DL_ERR_PARSE) return DL_OK;
        free(*text);
        *text = NULL;
        return dl_error_set_at(err, DL_ERR_DATA, given, 0, "%s", why.text);
    }
    char *path = dl_overhead_file_default();
    dl_error why = {0};
    if (path == NULL || access(path, F_OK) != 0) {
        *text = dl_strdup(DL_CAPTURE_COST_UNKNOWN " (no figures of dlprof bench overhead)");
    } else if (read_text(path, preset, text, &why) != DL_OK) {
        *text = unknown(path, why.text);
    } else {
        *text = check_host(path, *text);
    }
    free(path);
    return DL_OK;
}
