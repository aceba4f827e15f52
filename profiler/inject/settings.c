#include "profiler/inject/settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/names.h"

#define PREFIX "DLPROF_"

const char *const dl_capture_preset_names[] = {"light", "default", "full", NULL};
const char *const dl_capture_graphs_names[] = {"node", "graph", NULL};

/* All settings: first the options, then those that dlprof run determines itself. */
static const dl_option rows[] = {
    DL_OPTION_ROW_CHOICE(
        "preset", 'p', dl_capture_settings, preset, dl_capture_preset_names, "PRESET",
        "Amount to record: light, kernels, copies and NVTX; default, also runtime calls, the "
        "driver's launches and synchronization; full, also the driver's copies and waits.",
        .group = "Recording"),
    DL_OPTION_ROW_CHOICE("graphs", 0, dl_capture_settings, graphs, dl_capture_graphs_names, "HOW",
                         "Record each node of a CUDA graph, or each launch of a whole graph."),
    DL_OPTION_ROW_NUMBER(
        INT, "steps", 0, dl_capture_settings, steps, 0, DL_CAPTURE_STEPS_MAX, "COUNT",
        "Number of steps to record of a process in which NVTX ranges mark steps (default: all)."),
    DL_OPTION_ROW_NUMBER(
        DOUBLE, "duration", 0, dl_capture_settings, duration_s, 0, DL_CAPTURE_DURATION_MAX_S,
        "SECONDS",
        "Time for which a process is recorded, from its first activity on (default: to its end)."),
    DL_OPTION_ROW_NUMBER(
        BYTES, "limit", 0, dl_capture_settings, limit_bytes, 0, DL_CAPTURE_LIMIT_MAX_BYTES, "SIZE",
        "Size of a process's trace at which its recording ends (default: unlimited)."),
    DL_OPTION_ROW_NUMBER(
        DOUBLE, "end-wait", 0, dl_capture_settings, end_wait_s, 0, DL_CAPTURE_DURATION_MAX_S,
        "SECONDS", "Longest time that a process's end is delayed, until its last records arrive."),
    DL_OPTION_ROW_FLAG("lib-ranges", 0, dl_capture_settings, lib_ranges,
                       "Enable the NVTX ranges of cuBLAS and cuDNN calls."),
    DL_OPTION_ROW_FLAG(
        "dump-raw", 0, dl_capture_settings, dump_raw,
        "Also write CUPTI's buffers to NAME.raw beside each trace, to test dlprof's decoder."),
    DL_OPTION_ROW_TEXT("cupti", 0, dl_capture_settings, cupti, "FILE",
                       "Path of the libcupti to use (default: searched for)."),
    DL_OPTION_ROW_TEXT("output", 0, dl_capture_settings, output, NULL, NULL),
    DL_OPTION_ROW_TEXT("cost", 0, dl_capture_settings, cost, NULL, NULL),
};
enum { ROWS = sizeof rows / sizeof rows[0] };

dl_capture_settings dl_capture_settings_default(void)
{
    return (dl_capture_settings){.preset = DL_CAPTURE_DEFAULT,
                                 .graphs = DL_CAPTURE_GRAPH_NODES,
                                 .end_wait_s = DL_CAPTURE_END_WAIT_S,
                                 .output = "",
                                 .cupti = "",
                                 .cost = ""};
}

void dl_capture_options(dl_capture_settings *settings, dl_option *table)
{
    dl_options_bind(table, rows, DL_CAPTURE_OPTION_COUNT, settings);
}

#define NAME_BYTES 64

/* Returns "DLPROF_LIB_RANGES" for "lib-ranges". */
static const char *variable_name(const char *option, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, PREFIX "%s", option);
    for (char *at = name; *at != '\0'; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
    return name;
}

dl_status dl_capture_settings_check(const dl_capture_settings *settings, dl_setting_origin origin,
                                    dl_error *err)
{
    const struct {
        const char *option;
        double value, low, high;
    } limits[] = {
        {"duration", settings->duration_s, 1e-3, DL_CAPTURE_DURATION_MAX_S},
        {"limit", (double)settings->limit_bytes, DL_CAPTURE_LIMIT_MIN_BYTES,
         DL_CAPTURE_LIMIT_MAX_BYTES},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        char name[NAME_BYTES];
        if (limits[i].value == 0 || limits[i].value >= limits[i].low) continue;
        if (origin == DL_SETTING_OPTION) snprintf(name, sizeof name, "--%s", limits[i].option);
        if (origin == DL_SETTING_VARIABLE) variable_name(limits[i].option, name);
        return dl_error_set(err, DL_ERR_RANGE, "%s: %.15g is neither 0 nor in %.15g to %.15g", name,
                            limits[i].value, limits[i].low, limits[i].high);
    }
    return DL_OK;
}

void dl_capture_settings_to_environment(const dl_capture_settings *settings)
{
    dl_capture_settings sent = *settings;
    dl_option bound[ROWS];
    dl_options_bind(bound, rows, ROWS, &sent);
    for (int i = 0; i < ROWS; i++) {
        char name[NAME_BYTES], *text = dl_option_value(&bound[i]);
        const char *flag = bound[i].type == DL_OPTION_FLAG && *(bool *)bound[i].target ? "1" : "0";
        setenv(variable_name(bound[i].name, name), text != NULL ? text : flag, 1);
        free(text);
    }
    static const char *const levels[] = {"CUBLAS_NVTX_LEVEL", "CUBLASLT_NVTX_LEVEL",
                                         "CUDNN_NVTX_LEVEL"};
    for (size_t i = 0; settings->lib_ranges && i < sizeof levels / sizeof levels[0]; i++)
        setenv(levels[i], "1", 1);
}

static dl_status read_flag(const char *text, bool *value, dl_error *err)
{
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
        return dl_error_set(err, DL_ERR_PARSE, "'%.100s' is neither 0 nor 1", text);
    }
    *value = text[0] == '1';
    return DL_OK;
}

/* Reads one "NAME=value" whose name has the prefix. */
static dl_status read_variable(const dl_option bound[ROWS], const char *variable, dl_error *err)
{
    char name[NAME_BYTES], texts[ROWS][NAME_BYTES], hint[256];
    const char *names[ROWS], *equals = strchr(variable, '=');
    if (equals == NULL) return DL_OK; /* not a variable */
    snprintf(name, sizeof name, "%.*s", (int)(equals - variable), variable);
    for (int i = 0; i < ROWS; i++)
        names[i] = variable_name(bound[i].name, texts[i]);
    const int found = dl_names_find(name, names, ROWS);
    if (found < 0) {
        dl_names_hint(hint, sizeof hint, name, names, ROWS);
        return dl_error_set(err, DL_ERR_NAME, "unknown variable %.60s%s", name, hint);
    }
    const dl_option *row = &bound[found];
    dl_error why = {0};
    const dl_status status = row->type == DL_OPTION_FLAG ? read_flag(equals + 1, row->target, &why)
                                                         : dl_option_read(row, equals + 1, &why);
    if (status == DL_OK) return DL_OK;
    return dl_error_set(err, status, "%s: %.400s", name, why.text);
}

dl_status dl_capture_settings_from_environment(dl_capture_settings *settings,
                                               char *const *environment, dl_error *err)
{
    dl_capture_settings made = dl_capture_settings_default();
    dl_option bound[ROWS];
    dl_options_bind(bound, rows, ROWS, &made);
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, PREFIX, strlen(PREFIX)) != 0) continue;
        if (strncmp(*environment, DL_COPY_VARIABLE "=", sizeof DL_COPY_VARIABLE) == 0) continue;
        const dl_status status = read_variable(bound, *environment, err);
        if (status != DL_OK) return status;
    }
    const dl_status status = dl_capture_settings_check(&made, DL_SETTING_VARIABLE, err);
    if (status == DL_OK) *settings = made;
    return status;
}
