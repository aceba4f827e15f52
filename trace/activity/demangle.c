#include "trace/activity/demangle.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* Declared by the Itanium C++ ABI (section 3.4), as <cxxabi.h> is C++ only. Status 0: success. */
extern char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

/* Generic kernels, which run a functor given by their template arguments: PyTorch, CUTLASS, CUB,
 * apex, MXNet, Eigen. */
static const char *const frames[] = {"vectorized_elementwise_kernel",
                                     "unrolled_elementwise_kernel",
                                     "elementwise_kernel",
                                     "elementwise_kernel_manual_unroll",
                                     "elementwise_kernel_with_index",
                                     "index_elementwise_kernel",
                                     "_scatter_gather_elementwise_kernel",
                                     "legacy_elementwise_kernel",
                                     "reduce_kernel",
                                     "multi_tensor_apply_kernel",
                                     "Kernel",
                                     "Kernel2",
                                     "device_kernel",
                                     "mxnet_generic_kernel",
                                     "EigenMetaKernel",
                                     "par_ranged1d_kernel",
                                     "par_ranged2d_kernel",
                                     "par_reduce_kernel"};

/* Template arguments to skip: wrappers of the functor, and built-in types. */
static const char *const wrappers[] = {"gpu_kernel_impl",
                                       "gpu_kernel_impl_nocast",
                                       "gpu_index_kernel",
                                       "BinaryFunctor",
                                       "AUnaryFunctor",
                                       "BUnaryFunctor",
                                       "ReduceOp",
                                       "func_wrapper_t",
                                       "TensorListMetadata",
                                       "TensorListScalarListMetadata",
                                       "FusedOptimizerTensorListMetadata",
                                       "enable_sm90_or_later",
                                       "void",
                                       "bool",
                                       "char",
                                       "short",
                                       "int",
                                       "long",
                                       "unsigned",
                                       "signed",
                                       "float",
                                       "double",
                                       "const",
                                       "true",
                                       "false",
                                       "Half",
                                       "BFloat16",
                                       "__half",
                                       "__nv_bfloat16",
                                       "half_t",
                                       "bfloat16_t"};

static bool is_one_of(const char *word, size_t length, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], word, length) == 0) return true;
    }
    return false;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '~';
}

/* Returns the length of the bracketed text that starts at `text`, including the closing bracket;
 * without a closing bracket, the length of the rest. */
static size_t bracket_length(const char *text)
{
    size_t depth = 0, i = 0;
    for (; text[i] != '\0'; i++) {
        if (strchr("<([{", text[i]) != NULL) depth++;
        /* The '>' of "->" is not a closing bracket. */
        bool arrow = text[i] == '>' && i > 0 && text[i - 1] == '-';
        if (strchr(">)]}", text[i]) != NULL && !arrow && --depth == 0) return i + 1;
    }
    return i;
}

/* Returns whether the bracket at text denotes an unnamed namespace. */
static bool is_unnamed_scope(const char *text)
{
    return strncmp(text, "(anonymous namespace)::", 23) == 0 ||
           strncmp(text, "<unnamed>::", 11) == 0 || strncmp(text, "{anonymous}::", 13) == 0;
}

/* Copies the name without bracketed parts. A space outside brackets ends the return type; the first
 * '(' after a word starts the arguments and ends the name. Sets *inner to the start of the last
 * template arguments, or to NULL. */
static char *strip_brackets(const char *text, const char **inner)
{
    char *name = dl_calloc(strlen(text) + 1, 1, "name");
    size_t length = 0;
    *inner = NULL;
    while (*text != '\0') {
        if (is_unnamed_scope(text)) {
            text = strstr(text, "::") + 2;
        } else if (*text == '<') {
            *inner = text + 1;
            text += bracket_length(text);
        } else if (*text == '(' && length > 0) {
            break;
        } else if (strchr("([{", *text) != NULL) {
            text += bracket_length(text);
        } else if (*text == ' ') {
            length = 0;
            *inner = NULL;
            text++;
        } else {
            name[length++] = *text++;
        }
    }
    name[length] = '\0';
    return name;
}

/* Returns the last component: the text after the last "::", or all of it. */
static const char *last_component(const char *name)
{
    const char *last = name;
    for (const char *at = name; (at = strstr(at, "::")) != NULL;)
        last = at += 2;
    return last;
}

/* Returns the first template argument at `text` that names the functor of a generic kernel; sets
 * *length to its length, 0 if there is none. A word before "::" is a namespace and is ignored. */
static const char *find_telling(const char *text, size_t *length)
{
    for (size_t depth = 1; *text != '\0';) {
        if (is_unnamed_scope(text)) {
            text = strstr(text, "::") + 2;
            continue;
        }
        if (!is_word(*text)) {
            if (*text == '<') depth++;
            if (*text == '>' && --depth == 0) break;
            text++;
            continue;
        }
        size_t word = 0;
        while (is_word(text[word]))
            word++;
        bool scope = text[word] == ':';
        if (!scope && !isdigit((unsigned char)text[0]) &&
            !is_one_of(text, word, wrappers, DL_LENGTH(wrappers))) {
            *length = word;
            return text;
        }
        text += word;
    }
    *length = 0;
    return text;
}

void dl_cut_middle(char *text, size_t chars)
{
    size_t length = strlen(text);
    if (length <= chars) return;
    size_t tail = (chars - 2) / 2, head = chars - 2 - tail;
    memcpy(text + head, "..", 2);
    memmove(text + head + 2, text + length - tail, tail + 1);
}

/* Removes namespaces outside <> while the name is too long. */
static void drop_scopes(char *name, size_t chars)
{
    while (strlen(name) > chars) {
        const char *scope = strstr(name, "::");
        if (scope == NULL || (size_t)(scope - name) > strcspn(name, "<")) return;
        memmove(name, scope + 2, strlen(scope + 2) + 1);
    }
}

static char *shorten(const char *demangled)
{
    const char *inner, *own;
    size_t length = 0;
    char *name = strip_brackets(demangled, &inner);
    if (name[0] == '\0') {
        free(name);
        return dl_strdup(demangled);
    }
    own = last_component(name);
    if (inner == NULL || !is_one_of(own, strlen(own), frames, DL_LENGTH(frames))) return name;
    const char *telling = find_telling(inner, &length);
    if (length == 0) return name;
    char *with = dl_format("%s<%.*s>", name, (int)length, telling);
    free(name);
    return with;
}

/* Returns the leading <length><identifier> parts of a mangled name that __cxa_demangle rejects
 * (truncated by a tool, or from a newer compiler), joined by "::"; NULL if it has none. */
static char *read_components(const char *mangled)
{
    char *name = dl_calloc(strlen(mangled) + 1, 2, "name");
    mangled += strlen("_Z");
    if (*mangled == 'N') mangled++;
    while (isdigit((unsigned char)*mangled)) {
        char *identifier;
        size_t length = strtoul(mangled, &identifier, 10);
        if (length > strlen(identifier)) break;
        mangled = identifier + length;
        if (strncmp(identifier, "_GLOBAL_", 8) == 0) continue; /* anonymous namespace */
        if (name[0] != '\0') strcat(name, "::");
        strncat(name, identifier, length);
    }
    if (name[0] != '\0') return name;
    free(name);
    return NULL;
}

char *dl_demangle_short(const char *name)
{
    DL_AUTOFREE char *demangled = NULL;
    if (strncmp(name, "_Z", 2) == 0) {
        int status;
        demangled = __cxa_demangle(name, NULL, NULL, &status);
        if (demangled == NULL) demangled = read_components(name);
    }
    char *text = shorten(demangled != NULL ? demangled : name);
    drop_scopes(text, DL_SHORT_NAME_CHARS);
    dl_cut_middle(text, DL_SHORT_NAME_CHARS);
    return text;
}
