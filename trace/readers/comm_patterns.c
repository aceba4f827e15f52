#include "trace/readers/reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
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

/* Returns whether one of the alternatives matches every name. */
static bool matches_all(const char *patterns)
{
    for (const char *end;; patterns = end + 1) {
        end = strchrnul(patterns, '|');
        if (strspn(patterns, "*^ ") >= (size_t)(end - patterns)) return true;
        if (*end == '\0') return false;
    }
}

dl_status dl_comm_rule_parse(const char *text, dl_kernel_rule *rule, dl_error *err)
{
    const char *sign = strrchr(text, '=');
    if (sign == NULL) {
        return dl_error_set(err, DL_ERR_PARSE,
                            "collective '%s': expected TEXT=COLLECTIVE, such as "
                            "exchange=AllReduce",
                            text);
    }
    const int found = dl_names_find(sign + 1, collectives, COLLECTIVES);
    if (found < 0) {
        char hint[200];
        dl_names_hint(hint, sizeof hint, sign + 1, collectives, COLLECTIVES);
        return dl_error_set(err, DL_ERR_NAME, "unknown collective '%s'%s", sign + 1, hint);
    }
    DL_AUTOFREE char *patterns = dl_strndup(text, (size_t)(sign - text));
    if (matches_all(patterns)) {
        return dl_error_set(err, DL_ERR_PARSE,
                            "collective '%s': the text matches every name; expected a part of "
                            "names",
                            text);
    }
    *rule = (dl_kernel_rule){dl_strdup(patterns), collectives[found]};
    return DL_OK;
}

static const char *find_name(const char *simple)
{
    for (size_t i = 0; i < DL_LENGTH(names); i++) {
        if (strstr(simple, names[i].text) != NULL) return names[i].collective;
    }
    return NULL;
}

const char *dl_comm_of_range(const char *text)
{
    char simple[NAME_BYTES];
    const char *ruled = dl_kernel_ruled_collective(text);
    if (ruled != NULL) return ruled;
    simplify(simple, text);
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
