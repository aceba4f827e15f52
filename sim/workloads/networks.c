/* Networks by name: parser of names and keys, and list of networks. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/manual.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/workloads/workloads_internal.h"

static const dl_network_kind *const kinds[] = {&dl_convnets, &dl_transformers};
enum { KINDS = DL_LENGTH(kinds) };

#define NAMES_MAX 96

/* Other words for choices of any key: of PyTorch, and of attn_implementation in Hugging Face's
 * transformers. */
static const dl_word choice_words[] = {
    {"true", "yes", NULL},
    {"on", "yes", NULL},
    {"false", "no", NULL},
    {"off", "no", NULL},
    {"sdpa", "fused", NULL},
    {"flash_attention", "fused", NULL},
    {"flash_attention_2", "fused", NULL},
    {"flash_attention_3", "cudnn", NULL},
    {"flash_attn", "fused", NULL},
    {"flash_attn_2", "fused", NULL},
    {"flash_attn_3", "cudnn", NULL},
    {"eager", "plain", NULL},
    {"channels_last", "nhwc", NULL},
    {"contiguous_format", "nchw", NULL},
    {NULL, NULL, NULL},
};

static const char no_pairs[] = "encoders with decoders are not simulated";

/* Families of networks that are not simulated, by the start of their names: no other is similar. */
static const dl_word families[] = {
    {"unet", NULL, NULL},
    {"stable_diffusion", NULL, NULL},
    {"resnext", NULL, NULL},
    {"wide_resnet", NULL, NULL},
    {"densenet", NULL, NULL},
    {"mobilenet", NULL, NULL},
    {"inception", NULL, NULL},
    {"efficientnet", NULL, NULL},
    {"regnet", NULL, NULL},
    {"convnext", NULL, NULL},
    {"alexnet", NULL, NULL},
    {"googlenet", NULL, NULL},
    {"swin", NULL, NULL},
    {"clip", NULL, NULL},
    {"t5", NULL, no_pairs},
    {"bart", NULL, no_pairs},
    {"whisper", NULL, no_pairs},
    {"dlrm", NULL,
     "embeddings that are divided among GPUs, and their exchange in each step, are not simulated"},
    {NULL, NULL, NULL},
};

/* --- names and keys -------------------------------------------------------------------------- */

static size_t list_networks(const char **names)
{
    size_t count = 0;
    for (int k = 0; k < KINDS; k++) {
        for (size_t n = 0; n < kinds[k]->network_count; n++) {
            DL_ASSERT(count < NAMES_MAX, "more than %d networks", NAMES_MAX);
            names[count++] = kinds[k]->networks[n].name;
        }
    }
    return count;
}

static dl_status find_alike(const char *name, const dl_network_kind **kind,
                            const dl_named_network **network, dl_error *err)
{
    for (int k = 0; k < KINDS; k++) {
        for (size_t n = 0; n < kinds[k]->network_count; n++) {
            if (!dl_names_alike(kinds[k]->networks[n].name, name)) continue;
            *kind = kinds[k];
            *network = &kinds[k]->networks[n];
            return DL_OK;
        }
    }
    for (int k = 0; k < KINDS; k++) {
        const dl_word *word = kinds[k]->network_words;
        for (; word != NULL && word->word != NULL; word++) {
            if (!dl_names_alike(word->word, name)) continue;
            if (word->here != NULL) return find_alike(word->here, kind, network, err);
            return dl_error_set(err, DL_ERR_NAME, "no network is called '%s'; %s", name,
                                word->says);
        }
    }
    return DL_OK;
}

/* Whether `name` starts with the significant letters of `family`. */
static bool is_of_family(const char *name, const char *family)
{
    for (int letter; (letter = dl_name_letter(&family)) != 0;)
        if (dl_name_letter(&name) != letter) return false;
    return true;
}

/* Cuts an ending from a name on Hugging Face that does not change the network's sizes. */
static bool cut_ending(char *name)
{
    static const char *const endings[] = {"hf",      "base", "chat", "instruct",
                                          "uncased", "it",   "v0.1"};
    char *end = strrchr(name, '-');
    for (size_t i = 0; end != NULL && i < DL_LENGTH(endings); i++) {
        if (strcasecmp(end + 1, endings[i]) != 0) continue;
        *end = '\0';
        return true;
    }
    return false;
}

/* Finds a network by its name here, another name of it, or a model's name on Hugging Face:
 * meta-llama/Llama-3.1-8B-Instruct. Rejects paths. */
static dl_status find_network(const char *name, const dl_network_kind **kind,
                              const dl_named_network **network, dl_error *err)
{
    const char *slash = strchr(name, '/');
    const bool is_path =
        slash != NULL && (name[0] == '.' || slash == name || strchr(slash + 1, '/') != NULL ||
                          access(name, F_OK) == 0);
    if (is_path) {
        return dl_error_set(err, DL_ERR_NAME,
                            "no network is called '%s'; a model's file is FOLDER/config.json",
                            name);
    }
    DL_AUTOFREE char *base = dl_strdup(dl_base_name(name));
    const char *start = strncasecmp(base, "meta-", 5) == 0 ? base + 5 : base;
    dl_status status = find_alike(start, kind, network, err);
    while (status == DL_OK && *network == NULL && cut_ending(base))
        status = find_alike(start, kind, network, err);
    if (status != DL_OK || *network != NULL) return status;
    const dl_word *family = families;
    while (family->word != NULL && !is_of_family(start, family->word))
        family++;
    if (family->says != NULL)
        return dl_error_set(err, DL_ERR_NAME, "no network is called '%s'; %s", name, family->says);
    const char *names[NAMES_MAX];
    char hint[200];
    const size_t count = list_networks(names);
    if (family->word != NULL || dl_names_nearest(start, names, count) < 0)
        return dl_error_set(err, DL_ERR_NAME,
                            "no network is called '%s' (dlsim --workloads lists them); for another "
                            "give its config.json, if it is a transformer, its rate on one GPU "
                            "(--samples-per-s with --parameters), or a trace (dlcal costs)",
                            name);
    dl_names_hint(hint, sizeof hint, start, names, count);
    return dl_error_set(err, DL_ERR_NAME, "no network is called '%s'%s", name, hint);
}

/* Finds the kind of network and the default values of its keys; *network is NULL for a file. */
static dl_status find_values(const char *name, const dl_network_kind **kind,
                             const dl_named_network **network, int64_t *values, dl_error *err)
{
    *network = NULL;
    *kind = &dl_transformers;
    if (dl_ends_with(name, ".json")) return dl_config_read(*kind, name, values, err);
    const dl_status status = find_network(name, kind, network, err);
    if (status == DL_OK) memcpy(values, (*network)->values, sizeof(*network)->values);
    return status;
}

static dl_status read_value(const dl_network_key *key, const char *text, int64_t *value,
                            dl_error *err)
{
    dl_error inner = {0};
    if (key->choices == NULL) {
        dl_status status = dl_parse_int(text, key->low, key->high, value, &inner);
        return status == DL_OK
                   ? DL_OK
                   : dl_error_set(err, status, "%s = %s: %s", key->name, text, inner.text);
    }
    size_t count = 0;
    while (key->choices[count] != NULL)
        count++;
    const bool joined = key->high == 1;
    *value = 0;
    for (const char *at = text; at != NULL; at = *at == '+' ? at + 1 : NULL) {
        DL_AUTOFREE char *one = dl_strndup(at, joined ? strcspn(at, "+") : strlen(at));
        const dl_word *word = dl_word_find(choice_words, one);
        int found = dl_names_find(one, key->choices, count);
        if (found < 0 && word != NULL) found = dl_names_find(word->here, key->choices, count);
        if (found >= 0) {
            *value |= joined ? (int64_t)1 << found : found;
        } else {
            char hint[200];
            dl_names_hint(hint, sizeof hint, one, key->choices, count);
            dl_error_set(err, DL_ERR_NAME, "%s = %s: no such choice%s", key->name, one, hint);
        }
        at += strlen(one);
        if (found < 0) return DL_ERR_NAME;
    }
    return DL_OK;
}

/* Parses "KEY=VALUE"; *index is that of the key, -1 if it is unknown. */
static dl_status read_key(const dl_network_kind *kind, const char *text, int64_t *values,
                          int *index, dl_error *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL) {
        return dl_error_set(err, DL_ERR_PARSE, "'%s': expected key=value", text);
    }
    DL_AUTOFREE char *name = dl_strndup(text, (size_t)(equals - text));
    const char *names[DL_NETWORK_KEYS_MAX];
    for (size_t k = 0; k < kind->key_count; k++)
        names[k] = kind->keys[k].name;
    const dl_word *word = dl_word_find(kind->key_words, name);
    const bool is_called = word != NULL && word->here != NULL;
    const int found = dl_names_find(is_called ? word->here : name, names, kind->key_count);
    dl_status status = DL_OK;
    if (word != NULL && !is_called) {
        status = dl_error_set(err, DL_ERR_NAME, "%s have no key '%s'; %s", kind->title, name,
                              word->says);
    } else if (found < 0) {
        char hint[400];
        dl_names_hint(hint, sizeof hint, name, names, kind->key_count);
        status = dl_error_set(err, DL_ERR_NAME, "%s have no key '%s'%s", kind->title, name, hint);
    } else {
        status = read_value(&kind->keys[found], equals + 1, &values[found], err);
    }
    *index = found;
    return status;
}

/* Rejects a given value that has no effect in combination with the other keys. */
static dl_status check_effect(const dl_network_kind *kind, int index, const int64_t *values,
                              dl_error *err)
{
    const dl_network_key *key = &kind->keys[index];
    int64_t other[DL_NETWORK_KEYS_MAX];
    int on = 0;
    if (key->only == NULL || values[index] == 0) return DL_OK;
    for (const char *at = key->only; at != NULL; at = strchr(at, ' ')) {
        if (*at == ' ') at += strlen(" or ");
        DL_AUTOFREE char *one = dl_strndup(at, strcspn(at, " "));
        const dl_status status = read_key(kind, one, other, &on, err);
        DL_ASSERT(status == DL_OK, "%s: %s", key->name, key->only);
        if (values[on] == other[on]) return DL_OK;
    }
    return dl_error_set(err, DL_ERR_RANGE, "%s = %s has an effect only with %s", key->name,
                        key->choices[values[index]], key->only);
}

/* Parses a list of keys; cuts `keys` at its commas. */
static dl_status read_keys(const dl_network_kind *kind, char *keys, int64_t *values, dl_error *err)
{
    char *rest = NULL;
    int given[DL_NETWORK_KEYS_MAX], count = 0;
    dl_status status = DL_OK;
    for (char *key = strtok_r(keys, ",", &rest); key != NULL && status == DL_OK;
         key = strtok_r(NULL, ",", &rest)) {
        status = read_key(kind, key + strspn(key, " "), values, &given[count], err);
        count += count < DL_NETWORK_KEYS_MAX - 1;
    }
    for (int g = 0; g < count && status == DL_OK; g++)
        status = check_effect(kind, given[g], values, err);
    return status;
}

dl_model_class dl_architecture_class(const char *text)
{
    const dl_network_kind *kind = NULL;
    const dl_named_network *network = NULL;
    DL_AUTOFREE char *name = dl_strndup(text, strcspn(text, ":"));
    dl_error error = {0};
    int64_t values[DL_NETWORK_KEYS_MAX];
    const dl_status status = find_values(name, &kind, &network, values, &error);
    DL_ASSERT(status == DL_OK, "%s: no network", text);
    return kind->class;
}

dl_status dl_architecture_make(dl_architecture *architecture, const char *text, dl_error *err)
{
    const dl_network_kind *kind = NULL;
    const dl_named_network *network = NULL;
    int64_t values[DL_NETWORK_KEYS_MAX];
    char *name = dl_strdup(text), *colon = strchr(name, ':');
    if (colon != NULL) *colon = '\0';
    dl_status status = find_values(name, &kind, &network, values, err);
    if (status == DL_OK && colon != NULL) status = read_keys(kind, colon + 1, values, err);
    free(name);
    if (status != DL_OK) return status;
    dl_architecture made = {.name = dl_strdup(text),
                            .class = kind->class,
                            .tensor = 1,
                            .context = 1,
                            .expert_ranks = 1};
    status = kind->build(&made, network, values, err);
    if (status == DL_OK) {
        *architecture = made;
    } else {
        dl_architecture_free(&made);
    }
    return status;
}

/* --- the list -------------------------------------------------------------------------------- */

static void print_network(FILE *out, const dl_named_network *network)
{
    DL_SCOPED(dl_architecture) made = {0};
    dl_error error = {0};
    const dl_status status = dl_architecture_make(&made, network->name, &error);
    DL_ASSERT(status == DL_OK, "%s: %s", network->name, error.text);
    double flop = 0;
    for (size_t l = 0; l < made.layer_count; l++)
        flop += dl_pass_flop(&made.layers[l].forward);
    fprintf(out, "%-18s %14lld %12.4g  %s\n", network->name,
            (long long)dl_architecture_parameters(&made), flop / 1e9, network->help);
}

static void print_key(FILE *out, const dl_network_key *key)
{
    char range[100] = "";
    size_t used = 0;
    for (int c = 0; key->choices != NULL && key->choices[c] != NULL && used < sizeof range; c++) {
        used += (size_t)snprintf(range + used, sizeof range - used, "%s%s", c > 0 ? " or " : "",
                                 key->choices[c]);
    }
    if (key->choices != NULL && key->high == 1) snprintf(range, sizeof range, "names of matrices");
    if (key->choices == NULL) {
        snprintf(range, sizeof range, "%lld to %lld", (long long)key->low, (long long)key->high);
    }
    fprintf(out, "  %-14s %-20s %s%s%s\n", key->name, range, key->help,
            key->only != NULL ? "; only with " : "", key->only != NULL ? key->only : "");
}

void dl_architectures_print(FILE *out)
{
    fprintf(out, "%-18s %14s %12s  %s\n", "name", "parameters", "Gflop", "(forward, one sample)");
    for (int k = 0; k < KINDS; k++) {
        for (size_t n = 0; n < kinds[k]->network_count; n++)
            print_network(out, &kinds[k]->networks[n]);
    }
    for (int k = 0; k < KINDS; k++) {
        fprintf(out, "keys of %s, as in %s:%s=%lld\n", kinds[k]->title, kinds[k]->networks[0].name,
                kinds[k]->keys[0].name, (long long)kinds[k]->networks[0].values[0]);
        for (size_t i = 0; i < kinds[k]->key_count; i++)
            print_key(out, &kinds[k]->keys[i]);
    }
}

void dl_architectures_complete(FILE *out, const char *typed, size_t kept)
{
    const char *names[NAMES_MAX];
    const size_t count = list_networks(names);
    for (size_t i = 0; i < count; i++)
        dl_complete_word(out, typed, kept, names[i]);
}
