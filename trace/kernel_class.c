#include "trace/kernel_class.h"

#include <string.h>

#include "common/alloc.h"
#include "trace/kernel_rules.h"

enum { ID_UNSEEN = UINT8_MAX };
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static const dl_kernel_rule *user_rules;
static size_t user_rule_count;

void dl_kernel_use_rules(const dl_kernel_rule *rules, size_t count)
{
    user_rules = rules;
    user_rule_count = count;
}

const char *dl_kernel_class_name(dl_kernel_class class)
{
    static const char *const names[DL_KERNEL_CLASS_END] = {
        [DL_KERNEL_OTHER] = "other",
        [DL_KERNEL_CONVOLUTION] = "convolution",
        [DL_KERNEL_GEMM] = "gemm",
        [DL_KERNEL_ATTENTION] = "attention",
        [DL_KERNEL_NORMALISATION] = "normalisation",
        [DL_KERNEL_SOFTMAX] = "softmax/loss",
        [DL_KERNEL_POOLING] = "pooling",
        [DL_KERNEL_EMBEDDING] = "embedding",
        [DL_KERNEL_OPTIMIZER] = "optimizer",
        [DL_KERNEL_COLLECTIVE] = "collective",
        [DL_KERNEL_ELEMENTWISE] = "elementwise",
        [DL_KERNEL_REDUCTION] = "reduction",
        [DL_KERNEL_LAYOUT] = "copy/layout",
    };
    return (unsigned)class < DL_KERNEL_CLASS_END ? names[class] : "unknown";
}

/* Whether the pattern, the text up to `end`, occurs in `name`: its parts between '*' one behind the
 * other. Each part is taken at its first place, which leaves most room for the rest. */
static bool pattern_matches(const char *pattern, const char *end, const char *name)
{
    bool at_begin = pattern < end && *pattern == '^';
    if (at_begin) pattern++;
    while (pattern < end) {
        const char *star = memchr(pattern, '*', (size_t)(end - pattern));
        size_t length = (size_t)((star != NULL ? star : end) - pattern);
        if (at_begin) {
            if (strncmp(name, pattern, length) != 0) return false;
        } else {
            name = memmem(name, strlen(name), pattern, length);
            if (name == NULL) return false;
        }
        at_begin = false;
        name += length;
        pattern += length + (star != NULL);
    }
    return true;
}

bool dl_kernel_pattern_matches(const char *patterns, const char *text)
{
    for (;;) {
        const char *end = strchrnul(patterns, '|');
        if (pattern_matches(patterns, end, text)) return true;
        if (*end == '\0') return false;
        patterns = end + 1;
    }
}

/* The first of the user's rules that matches, or NULL. */
static const dl_kernel_rule *find_user_rule(const char *name)
{
    for (size_t i = 0; i < user_rule_count; i++) {
        if (dl_kernel_pattern_matches(user_rules[i].patterns, name)) return &user_rules[i];
    }
    return NULL;
}

static dl_phase find_phase(const char *name)
{
    for (size_t i = 0; i < LENGTH(phase_rules); i++) {
        if (dl_kernel_pattern_matches(phase_rules[i].patterns, name)) return phase_rules[i].phase;
    }
    return DL_PHASE_NONE;
}

dl_kernel_class dl_kernel_classify(const char *name, dl_phase *phase)
{
    dl_kernel_class class = find_user_rule(name) != NULL ? DL_KERNEL_COLLECTIVE : DL_KERNEL_OTHER;
    for (size_t i = 0; i < LENGTH(kernel_rules) && class == DL_KERNEL_OTHER; i++) {
        if (!dl_kernel_pattern_matches(kernel_rules[i].patterns, name)) continue;
        class = kernel_rules[i].class;
        break;
    }
    if (phase == NULL) return class;
    if (class == DL_KERNEL_OPTIMIZER) {
        *phase = DL_PHASE_UPDATE;
    } else if (class == DL_KERNEL_COLLECTIVE) {
        *phase = DL_PHASE_NONE;
    } else {
        *phase = find_phase(name);
    }
    return class;
}

bool dl_kernel_is_collective(const char *name)
{
    return dl_kernel_classify(name, NULL) == DL_KERNEL_COLLECTIVE;
}

uint8_t *dl_kernel_classes(const dl_activity *activities, size_t count, char *const *strings,
                           size_t string_count)
{
    uint8_t *classes = dl_calloc(string_count, 1, "kernel classes");
    memset(classes, ID_UNSEEN, string_count);
    for (size_t i = 0; i < count; i++) {
        uint32_t name = activities[i].name;
        if (activities[i].kind != DL_ACTIVITY_KERNEL || name >= string_count) continue;
        if (classes[name] == ID_UNSEEN) {
            classes[name] = (uint8_t)dl_kernel_classify(strings[name], NULL);
        }
    }
    for (size_t i = 0; i < string_count; i++) {
        if (classes[i] == ID_UNSEEN) classes[i] = DL_KERNEL_OTHER;
    }
    return classes;
}

typedef struct written_type {
    const char *written, *type;
} written_type;

/* As the kernels of NCCL since 2.7 and of RCCL write types; a longer one before its beginning. */
static const written_type written_types[] = {
    {"f8e4m3", "float8e4m3"},
    {"f8e5m2", "float8e5m2"},
    {"rccl_float8", "float8e4m3"},
    {"rccl_bfloat8", "float8e5m2"},
    {"bf16", "bfloat16"},
    {"__nv_bfloat16", "bfloat16"},
    {"rccl_bfloat16", "bfloat16"},
    {"hip_bfloat16", "bfloat16"},
    {"f16", "float16"},
    {"half", "float16"},
    {"f32", "float32"},
    {"float", "float32"},
    {"f64", "float64"},
    {"double", "float64"},
    {"uint8_t", "uint8"},
    {"u8", "uint8"},
    {"int8_t", "int8"},
    {"i8", "int8"},
    {"uint32_t", "uint32"},
    {"u32", "uint32"},
    {"int32_t", "int32"},
    {"i32", "int32"},
    {"uint64_t", "uint64"},
    {"u64", "uint64"},
    {"int64_t", "int64"},
    {"i64", "int64"},
};

/* The type stands behind the reduction in all versions: "..._Sum_f32", "..._sum_float". */
static const char *find_type(const char *name)
{
    static const char *const reductions[] = {"_SumPostDiv_", "_PreMulSum_", "_MinMax_", "_Sum_",
                                             "_Prod_",       "_Max_",       "_Min_",    "_Avg_"};
    for (size_t i = 0; i < LENGTH(reductions); i++) {
        const char *place = strcasestr(name, reductions[i]);
        if (place == NULL) continue;
        place += strlen(reductions[i]);
        for (size_t t = 0; t < LENGTH(written_types); t++) {
            const char *written = written_types[t].written;
            if (strncmp(place, written, strlen(written)) == 0) return written_types[t].type;
        }
    }
    return "";
}

/* DeepEP's dispatch and combine; what announces them ("notify_dispatch") carries no data. */
static const char *tell_deep_ep(const char *name)
{
    if (strstr(name, "notify") != NULL || strstr(name, "clean") != NULL) return "";
    return dl_kernel_pattern_matches("dispatch|combine", name) ? "AlltoAll" : "";
}

static const char *tell_nvshmem(const char *name)
{
    static const char *const names[][2] = {
        {"alltoall", "AlltoAll"},   {"fcollect", "AllGather"}, {"reducescatter", "ReduceScatter"},
        {"broadcast", "Broadcast"}, {"reduce", "AllReduce"},
    };
    for (size_t i = 0; i < LENGTH(names); i++) {
        if (strstr(name, names[i][0]) != NULL) return names[i][1];
    }
    return "";
}

static const char *tell_nccl(const char *name)
{
    /* "Reduce" is a part of two others, "Gather" and "Scatter" of one. */
    static const char *const collectives[] = {"AllReduce", "ReduceScatter", "AllGather", "AlltoAll",
                                              "AllToAll",  "SendRecv",      "Broadcast", "Reduce",
                                              "Gather",    "Scatter"};
    for (size_t i = 0; i < LENGTH(collectives); i++) {
        if (strstr(name, collectives[i]) != NULL) return collectives[i];
    }
    return "";
}

bool dl_kernel_tell_collective(const char *name, dl_kernel_collective *told)
{
    const dl_kernel_rule *rule = find_user_rule(name);
    if (rule != NULL) {
        *told = (dl_kernel_collective){rule->collective, "", rule->algorithm};
    } else if (dl_kernel_pattern_matches("nccl*Kernel|rcclKernel", name)) {
        *told = (dl_kernel_collective){tell_nccl(name), "", ""};
        if (strstr(told->collective, "Reduce") != NULL) told->type = find_type(name);
    } else if (strstr(name, "deep_ep") != NULL) {
        *told = (dl_kernel_collective){tell_deep_ep(name), "", ""};
    } else if (strstr(name, "nvshmem") != NULL) {
        *told = (dl_kernel_collective){tell_nvshmem(name), "", ""};
    } else {
        return false;
    }
    return true;
}
