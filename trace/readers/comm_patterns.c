#include "trace/readers/reader.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/keys.h"
#include "common/names.h"

/* Buffer size of a simplified name; longer names are truncated. */
#define NAME_BYTES 256

static const char *const collectives[] = {
    "AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "Broadcast", "Reduce",
    "Gather",    "Scatter",   "Send",          "Recv",     NULL};
enum { COLLECTIVES = DL_LENGTH(collectives) - 1 };

/* The first row whose text occurs in a name applies, so a text that is contained in others
 * ("reduce", "gather", "scatter") comes after them. */
static const struct {
    const char *text, *collective;
} names[] = {
    {"allreduce", "AllReduce"}, {"barrier", "AllReduce"}, {"reducescatter", "ReduceScatter"},
    {"allgather", "AllGather"}, {"alltoall", "AlltoAll"}, {"broadcast", "Broadcast"},
    {"reduce", "Reduce"},       {"gather", "Gather"},     {"scatter", "Scatter"},
    {"send", "Send"},           {"recv", "Recv"},
};

static const char *const prefixes[] = {"nccl:", "rccl:", "xccl:", "hccl:", "ucc:", "gloo:"};

/* Writes `text` in lower case without '_', '-' and blanks, truncated to NAME_BYTES. */
static void simplify(char into[NAME_BYTES], const char *text)
{
    size_t length = 0;
    for (; *text != '\0' && length + 1 < NAME_BYTES; text++) {
        if (*text == '_' || *text == '-' || *text == ' ') continue;
        into[length++] = (char)tolower((unsigned char)*text);
    }
    into[length] = '\0';
}

dl_status dl_comm_patterns_add(dl_comm_patterns *patterns, const char *rule, dl_error *err)
{
    const char *sign = strrchr(rule, '=');
    char text[NAME_BYTES], hint[200];
    if (sign == NULL || sign == rule || sign - rule >= NAME_BYTES) {
        return dl_error_set(err, DL_ERR_PARSE,
                            "collective '%s': expected TEXT=COLLECTIVE, such as "
                            "exchange=AllReduce",
                            rule);
    }
    int found = dl_names_find(sign + 1, collectives, COLLECTIVES);
    if (found < 0) {
        dl_names_hint(hint, sizeof hint, sign + 1, collectives, COLLECTIVES);
        return dl_error_set(err, DL_ERR_NAME, "unknown collective '%s'%s", sign + 1, hint);
    }
    DL_AUTOFREE char *copy = dl_strndup(rule, (size_t)(sign - rule));
    simplify(text, copy);
    if (text[0] == '\0') {
        return dl_error_set(err, DL_ERR_PARSE, "collective '%s': nothing in front of '='", rule);
    }
    DL_APPEND(patterns->patterns, patterns->count, "patterns of collectives") =
        (dl_comm_pattern){.text = dl_strdup(text), .collective = collectives[found]};
    return DL_OK;
}

/* Common algorithms of NCCL and MPI. */
static const char *const algorithms[] = {"ring",     "tree", "direct",  "hierarchical",
                                         "pairwise", "nvls", "collnet", NULL};

/* Values of a [pattern] section. */
typedef struct pattern {
    char *text;
    int collective, algorithm; /* algorithm -1: not given */
} pattern;

static const dl_key rows[] = {
    {"pattern *", "text", DL_KEY_TEXT, .required = true, .offset = offsetof(pattern, text)},
    {"pattern *", "collective", DL_KEY_CHOICE, .choices = collectives, .required = true,
     .offset = offsetof(pattern, collective)},
    {"pattern *", "algorithm", DL_KEY_CHOICE, .choices = algorithms,
     .offset = offsetof(pattern, algorithm)},
};
static const dl_keys keys = {rows, DL_LENGTH(rows), NULL};

/* Returns whether one of the alternatives has no character to match. */
static bool is_empty(const char *patterns)
{
    for (const char *end;; patterns = end + 1) {
        end = strchrnul(patterns, '|');
        if (strspn(patterns, "*^ ") >= (size_t)(end - patterns)) return true;
        if (*end == '\0') return false;
    }
}

static dl_status add_section(dl_comm_patterns *patterns, const dl_ini *ini, const char *section,
                             dl_error *err)
{
    pattern read = {.algorithm = -1};
    dl_status status = dl_keys_read(&keys, 0, ini, section, &read, err);
    if (status == DL_OK && is_empty(read.text)) {
        status = dl_ini_error(ini, dl_ini_find(ini, section, "text"), DL_ERR_PARSE, err,
                              "a pattern that matches every name");
    }
    if (status != DL_OK) {
        free(read.text);
        return status;
    }
    DL_APPEND(patterns->rules, patterns->rule_count, "patterns of collectives") =
        (dl_kernel_rule){read.text, collectives[read.collective],
                         read.algorithm >= 0 ? algorithms[read.algorithm] : ""};
    return DL_OK;
}

dl_status dl_comm_patterns_read(dl_comm_patterns *patterns, const char *path, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    return dl_comm_patterns_read_text(patterns, path, text, bytes, err);
}

dl_status dl_comm_patterns_read_text(dl_comm_patterns *patterns, const char *name, const char *text,
                                     size_t bytes, dl_error *err)
{
    DL_AUTO(dl_ini_free) dl_ini ini = {0};
    dl_status status = dl_ini_read_text(&ini, name, text, bytes, err);
    if (status != DL_OK) return status;
    status = dl_keys_check(&keys, &ini, err);
    if (status == DL_OK && ini.section_count == 0) {
        status = dl_error_set_at(err, DL_ERR_DATA, name, 0, "it has no [pattern NAME]");
    }
    for (size_t i = 0; i < ini.section_count && status == DL_OK; i++)
        status = add_section(patterns, &ini, ini.sections[i].name, err);
    return status;
}

void dl_comm_patterns_free(dl_comm_patterns *patterns)
{
    for (size_t i = 0; i < patterns->count; i++)
        free(patterns->patterns[i].text);
    free(patterns->patterns);
    for (size_t i = 0; i < patterns->rule_count; i++)
        free((char *)patterns->rules[i].patterns);
    free(patterns->rules);
    *patterns = (dl_comm_patterns){0};
}

static const char *find_name(const char *simple)
{
    for (size_t i = 0; i < DL_LENGTH(names); i++) {
        if (strstr(simple, names[i].text) != NULL) return names[i].collective;
    }
    return NULL;
}

const char *dl_comm_of_range(const dl_comm_patterns *patterns, const char *text)
{
    char simple[NAME_BYTES];
    simplify(simple, text);
    for (size_t i = 0; i < patterns->count; i++) {
        if (strstr(simple, patterns->patterns[i].text) != NULL)
            return patterns->patterns[i].collective;
    }
    for (size_t i = 0; i < patterns->rule_count; i++) {
        if (dl_kernel_pattern_matches(patterns->rules[i].patterns, text))
            return patterns->rules[i].collective;
    }
    for (size_t i = 0; i < DL_LENGTH(prefixes); i++) {
        size_t length = strlen(prefixes[i]);
        if (strncmp(simple, prefixes[i], length) == 0) return find_name(simple + length);
    }
    return NULL;
}

const char *dl_comm_of_name(const char *name)
{
    char simple[NAME_BYTES];
    simplify(simple, name);
    return find_name(simple);
}

/* Writes a type's name without case, separators and "c10::" to simple[NAME_BYTES]; returns it. */
static const char *type_name(char *simple, const char *type)
{
    simplify(simple, type);
    return strncmp(simple, "c10::", 5) == 0 ? simple + 5 : simple;
}

bool dl_comm_type_counts(const char *type)
{
    char simple[NAME_BYTES];
    const char *name = type_name(simple, type);
    return strcmp(name, "int") == 0 || strcmp(name, "long") == 0 || strcmp(name, "longint") == 0;
}

size_t dl_comm_type_bytes(const char *type)
{
    /* Names of c10::ScalarType, and C++ names as in operators' inputs. */
    static const struct {
        const char *name;
        size_t bytes;
    } types[] = {
        {"float", 4},          {"double", 8},         {"half", 2},         {"bfloat16", 2},
        {"long", 8},           {"longint", 8},        {"int", 4},          {"short", 2},
        {"shortint", 2},       {"char", 1},           {"signedchar", 1},   {"byte", 1},
        {"unsignedchar", 1},   {"bool", 1},           {"float8e4m3fn", 1}, {"float8e5m2", 1},
        {"float8e4m3fnuz", 1}, {"float8e5m2fnuz", 1}, {"complexfloat", 8}, {"complexdouble", 16},
    };
    char simple[NAME_BYTES];
    const char *name = type_name(simple, type);
    for (size_t i = 0; i < DL_LENGTH(types); i++) {
        if (strcmp(name, types[i].name) == 0) return types[i].bytes;
    }
    return 0;
}

uint64_t dl_comm_rank_bytes(const char *collective, uint64_t in_bytes, uint64_t out_bytes,
                            uint32_t ranks)
{
    if (strcmp(collective, "AlltoAll") == 0) return ranks > 0 ? in_bytes / ranks : 0;
    if (strcmp(collective, "Recv") == 0) return out_bytes > 0 ? out_bytes : in_bytes;
    if (strcmp(collective, "ReduceScatter") == 0 || strcmp(collective, "Scatter") == 0) {
        if (out_bytes > 0) return out_bytes;
        return ranks > 0 ? in_bytes / ranks : 0;
    }
    return in_bytes;
}
