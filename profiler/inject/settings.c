#include "profiler/inject/settings.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "common/names.h"
#include "common/units.h"

#define PREFIX "DLPROF_"
#define VALUE_BYTES DL_CAPTURE_PATH_BYTES

const char *const dl_capture_preset_names[] = {"light", "default", "full", NULL};
const char *const dl_capture_graphs_names[] = {"node", "graph", NULL};

/* The one list of settings: for reading, for writing, for checking. */
typedef struct setting {
    const char *name; /* after the prefix */
    enum { TEXT, CHOICE, COUNT, SECONDS, BYTES, FLAG } type;
    size_t offset;              /* in dl_capture_settings */
    const char *const *choices; /* CHOICE */
    double low, high;           /* COUNT, SECONDS, BYTES: valid besides 0 */
} setting;

#define AT(field) offsetof(dl_capture_settings, field)
static const setting settings_table[] = {
    {.name = "OUTPUT", .type = TEXT, .offset = AT(output)},
    {.name = "PRESET", .type = CHOICE, .offset = AT(preset), .choices = dl_capture_preset_names},
    {.name = "GRAPHS", .type = CHOICE, .offset = AT(graphs), .choices = dl_capture_graphs_names},
    {.name = "STEPS", .type = COUNT, .offset = AT(steps), .low = 1, .high = DL_CAPTURE_STEPS_MAX},
    {.name = "DURATION",
     .type = SECONDS,
     .offset = AT(duration_s),
     .low = 1e-3,
     .high = DL_CAPTURE_DURATION_MAX_S},
    {.name = "LIMIT",
     .type = BYTES,
     .offset = AT(limit_bytes),
     .low = DL_CAPTURE_LIMIT_MIN_BYTES,
     .high = DL_CAPTURE_LIMIT_MAX_BYTES},
    {.name = "LIB_RANGES", .type = FLAG, .offset = AT(lib_ranges)},
    {.name = "LATENCY", .type = FLAG, .offset = AT(latency)},
    {.name = "DUMP_RAW", .type = FLAG, .offset = AT(dump_raw)},
    {.name = "CUPTI", .type = TEXT, .offset = AT(cupti)},
    {.name = "COST", .type = TEXT, .offset = AT(cost)},
};
#define SETTING_COUNT (sizeof settings_table / sizeof settings_table[0])

dl_capture_settings dl_capture_settings_default(void)
{
    return (dl_capture_settings){.preset = DL_CAPTURE_DEFAULT, .graphs = DL_CAPTURE_GRAPH_NODES};
}

dl_status dl_capture_set_path(char to[DL_CAPTURE_PATH_BYTES], const char *path, dl_error *err)
{
    const size_t bytes = strlen(path) + 1;
    if (bytes > DL_CAPTURE_PATH_BYTES) {
        return dl_error_set(err, DL_ERR_RANGE, "longer than %d bytes: %.100s...",
                            DL_CAPTURE_PATH_BYTES - 1, path);
    }
    memcpy(to, path, bytes);
    return DL_OK;
}

static int count_choices(const char *const *choices)
{
    int count = 0;
    while (choices[count] != NULL)
        count++;
    return count;
}

#define NAME_BYTES 64

/* What the user knows it by. */
static const char *full_name(const setting *one, dl_setting_origin origin, char name[NAME_BYTES])
{
    const bool option = origin == DL_SETTING_OPTION;
    snprintf(name, NAME_BYTES, "%s%s", option ? "--" : PREFIX, one->name);
    for (char *at = name + 2; option && *at != '\0'; at++)
        *at = *at == '_' ? '-' : (char)tolower((unsigned char)*at);
    return name;
}

/* 0 stands for "no limit" and is always valid. `name` is the setting's for the user. */
static dl_status check_number(const setting *one, const char *name, double value, dl_error *err)
{
    if (value == 0 || (value >= one->low && value <= one->high)) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE, "%s: %.15g is neither 0 nor in %.15g to %.15g", name,
                        value, one->low, one->high);
}

static dl_status check_one(const setting *one, const char *name, const void *value, dl_error *err)
{
    switch (one->type) {
    case CHOICE: {
        const int choice = *(const int *)value;
        if (choice >= 0 && choice < count_choices(one->choices)) return DL_OK;
        return dl_error_set(err, DL_ERR_RANGE, "%s: there is no choice %d", name, choice);
    }
    case COUNT: return check_number(one, name, (double)*(const int64_t *)value, err);
    case SECONDS: return check_number(one, name, *(const double *)value, err);
    case BYTES: return check_number(one, name, (double)*(const uint64_t *)value, err);
    case TEXT:
    case FLAG: break;
    }
    return DL_OK;
}

dl_status dl_capture_settings_check(const dl_capture_settings *settings, dl_setting_origin origin,
                                    dl_error *err)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const char *value = (const char *)settings + settings_table[i].offset;
        char name[NAME_BYTES];
        full_name(&settings_table[i], origin, name);
        const dl_status status = check_one(&settings_table[i], name, value, err);
        if (status != DL_OK) return status;
    }
    return DL_OK;
}

/* The value as text, in `text` or elsewhere. */
static const char *format_one(const setting *one, const void *value, char text[VALUE_BYTES])
{
    switch (one->type) {
    case TEXT: return value;
    case CHOICE: return one->choices[*(const int *)value];
    case COUNT: snprintf(text, VALUE_BYTES, "%" PRId64, *(const int64_t *)value); break;
    case SECONDS: return dl_format_double(text, *(const double *)value);
    case BYTES: snprintf(text, VALUE_BYTES, "%" PRIu64, *(const uint64_t *)value); break;
    case FLAG: return *(const bool *)value ? "1" : "0";
    }
    return text;
}

void dl_capture_settings_to_environment(const dl_capture_settings *settings,
                                        void (*set)(void *user, const char *name,
                                                    const char *value),
                                        void *user)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const setting *one = &settings_table[i];
        char name[NAME_BYTES], text[VALUE_BYTES];
        full_name(one, DL_SETTING_VARIABLE, name);
        set(user, name, format_one(one, (const char *)settings + one->offset, text));
    }
    if (!settings->lib_ranges) return;
    static const char *const levels[] = {"CUBLAS_NVTX_LEVEL", "CUBLASLT_NVTX_LEVEL",
                                         "CUDNN_NVTX_LEVEL"};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        set(user, levels[i], "1");
}

static dl_status parse_choice(const setting *one, const char *text, int *value, dl_error *err)
{
    const int count = count_choices(one->choices);
    const int found = dl_names_find(text, one->choices, (size_t)count);
    if (found >= 0) {
        *value = found;
        return DL_OK;
    }
    char hint[128];
    dl_names_hint(hint, sizeof hint, text, one->choices, (size_t)count);
    return dl_error_set(err, DL_ERR_NAME, "unknown choice '%.100s'%s", text, hint);
}

static dl_status parse_flag(const char *text, bool *value, dl_error *err)
{
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
        return dl_error_set(err, DL_ERR_PARSE, "'%.100s' is neither 0 nor 1", text);
    }
    *value = text[0] == '1';
    return DL_OK;
}

/* Reads `text` into the field at `value`; `err` does not name the variable. */
static dl_status parse_one(const setting *one, const char *text, void *value, dl_error *err)
{
    switch (one->type) {
    case TEXT: return dl_capture_set_path(value, text, err);
    case CHOICE: return parse_choice(one, text, value, err);
    case COUNT: return dl_parse_int(text, 0, (int64_t)one->high, value, err);
    case SECONDS: return dl_parse_double(text, 0, one->high, value, err);
    case BYTES: return dl_parse_bytes(text, value, err);
    case FLAG: return parse_flag(text, value, err);
    }
    return DL_OK;
}

static const setting *find(const char *name, dl_error *err)
{
    char texts[SETTING_COUNT][NAME_BYTES], hint[256];
    const char *names[SETTING_COUNT];
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        names[i] = full_name(&settings_table[i], DL_SETTING_VARIABLE, texts[i]);
        if (strcmp(name, names[i]) == 0) return &settings_table[i];
    }
    dl_names_hint(hint, sizeof hint, name, names, SETTING_COUNT);
    dl_error_set(err, DL_ERR_NAME, "unknown variable %.60s%s", name, hint);
    return NULL;
}

/* Takes one "NAME=value" whose name has the prefix. */
static dl_status read_variable(dl_capture_settings *settings, const char *variable, dl_error *err)
{
    const char *equals = strchr(variable, '=');
    if (equals == NULL) return DL_OK; /* not a variable at all */
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)(equals - variable), variable);
    const setting *one = find(name, err);
    if (one == NULL) return DL_ERR_NAME;
    dl_error why = {0};
    const dl_status status = parse_one(one, equals + 1, (char *)settings + one->offset, &why);
    if (status == DL_OK) return DL_OK;
    return dl_error_set(err, status, "%s: %.400s", name, why.text);
}

dl_status dl_capture_settings_from_environment(dl_capture_settings *settings,
                                               char *const *environment, dl_error *err)
{
    dl_capture_settings made = dl_capture_settings_default();
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, PREFIX, strlen(PREFIX)) != 0) continue;
        const dl_status status = read_variable(&made, *environment, err);
        if (status != DL_OK) return status;
    }
    const dl_status status = dl_capture_settings_check(&made, DL_SETTING_VARIABLE, err);
    if (status == DL_OK) *settings = made;
    return status;
}
