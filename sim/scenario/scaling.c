#include "sim/scenario/scaling.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/scenario/known_gpus.h"
#include "sim/scenario/machine_catalogue.h"

#define WORDS_MAX 16

/* --- names ----------------------------------------------------------------------------------- */

/* The letters and digits of text[bytes], small; the caller's to free. */
static char *plain(const char *text, size_t bytes)
{
    char *copy = dl_strndup(text, bytes);
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (isalnum((unsigned char)copy[i])) copy[used++] = (char)tolower((unsigned char)copy[i]);
    }
    copy[used] = '\0';
    return copy;
}

/* Splits the device up to its first comma into words[WORDS_MAX]; returns how many there are. */
static int split_words(const char *device, char **words)
{
    int count = 0;
    const char *c = device;
    while (*c != '\0' && *c != ',' && count < WORDS_MAX) {
        size_t bytes = 0;
        while (isalnum((unsigned char)c[bytes]))
            bytes++;
        if (bytes > 0) words[count++] = plain(c, bytes);
        c += bytes > 0 ? bytes : 1;
    }
    return count;
}

static bool makes_another(const char *word)
{
    return strcmp(word, "ti") == 0 || strcmp(word, "super") == 0;
}

/* Whether words[count] start with the name. */
static bool starts_with(char *const *words, int count, const char *name)
{
    int used = 0;
    while (used < count && *name != '\0') {
        const size_t bytes = strlen(words[used]);
        if (strncmp(name, words[used], bytes) != 0) return false;
        name += bytes;
        used++;
    }
    return *name == '\0' && (used == count || !makes_another(words[used]));
}

/* Whether some of words[count], in a row, make the part of a name. */
static bool has_part(char *const *words, int count, const char *part, size_t bytes)
{
    char *name = plain(part, bytes);
    bool found = false;
    for (int w = 0; w < count; w++)
        found |= name[0] != '\0' && starts_with(words + w, count - w, name);
    free(name);
    return found;
}

bool dl_scaling_is_model(const char *device, const char *model)
{
    char *words[WORDS_MAX];
    const int count = split_words(device, words);
    bool found = true;
    for (const char *part = model; found && part != NULL;) {
        const size_t bytes = strcspn(part, "_");
        found = has_part(words, count, part, bytes);
        part = part[bytes] != '\0' ? part + bytes + 1 : NULL;
    }
    for (int w = 0; w < count; w++)
        free(words[w]);
    return found;
}

/* a100_80gb and a100_pcie are of one chip. */
static bool same_chip(const char *a, const char *b)
{
    const size_t bytes = strcspn(a, "_");
    return bytes == strcspn(b, "_") && strncmp(a, b, bytes) == 0;
}

/* --- costs ----------------------------------------------------------------------------------- */

static const dl_quantity *arithmetic_of(const dl_gpu_model *model, int rate)
{
    if (rate == 0) return &model->fp32_flop_per_s;
    return rate == 1 ? &model->tf32_flop_per_s : &model->fp16_flop_per_s;
}

/* The machine's only model; NULL if it has several. */
static const dl_gpu_model *only_model(const dl_machine *m)
{
    for (int g = 1; g < m->gpu_count; g++) {
        if (m->gpus[g].model != m->gpus[0].model) return NULL;
    }
    return &m->models[m->gpus[0].model];
}

/* Two GPUs: [0] that of the costs, [1] that of the machine; in flop and bytes a second. */
typedef struct rates {
    double arithmetic[2], memory[2];
} rates;

static double roofline_s(const rates *r, int gpu, const dl_op_cost *op)
{
    return fmax(op->flop_per_sample.value / r->arithmetic[gpu],
                op->bytes_per_sample.value / r->memory[gpu]);
}

static bool ends_in_update(const char *name)
{
    const size_t length = strlen(name), tail = strlen(".update");
    return length > tail && strcmp(name + length - tail, ".update") == 0;
}

static double factor_of(const rates *r, const dl_op_cost *op, const dl_scaling *scaling)
{
    const bool known = op->flop_per_sample.known && op->bytes_per_sample.known;
    if (known && roofline_s(r, 0, op) > 0) return roofline_s(r, 1, op) / roofline_s(r, 0, op);
    return ends_in_update(op->name) ? scaling->update_factor : scaling->compute_factor;
}

static void scale(dl_value *value, double factor)
{
    value->value *= factor;
    value->error *= factor;
    value->origin = DL_ORIGIN_ASSUMED;
}

static void scale_all(dl_costs *costs, const rates *r, dl_scaling *scaling)
{
    const double a = r->arithmetic[0] / r->arithmetic[1], b = r->memory[0] / r->memory[1];
    scaling->scaled = true;
    scaling->update_factor = b;
    scaling->compute_factor =
        pow(a, DL_SCALING_ARITHMETIC_SHARE) * pow(b, 1 - DL_SCALING_ARITHMETIC_SHARE);
    scaling->spread_log = DL_SCALING_SPREAD;
    if (same_chip(scaling->from, scaling->to)) {
        scaling->spread_log =
            fmax(fabs(log(a / scaling->compute_factor)), fabs(log(b / scaling->compute_factor)));
    }
    for (size_t i = 0; i < costs->op_count; i++) {
        dl_op_cost *op = &costs->ops[i];
        if (strcmp(op->name, "input") == 0 || strcmp(op->name, "dispatch") == 0) continue;
        const double factor = factor_of(r, op, scaling);
        scale(&op->fixed_ns, factor);
        scale(&op->per_sample_ns, factor);
    }
}

/* --- the GPU that the costs are of ----------------------------------------------------------- */

/* That of the file, which the scenario names. */
static dl_status find_in(const dl_machine *file, const dl_costs *costs, const dl_gpu_model **source,
                         dl_error *err)
{
    for (int i = 0; i < file->model_count && costs->device != NULL; i++) {
        if (!dl_scaling_is_model(costs->device, file->models[i].name)) continue;
        *source = &file->models[i];
        return DL_OK;
    }
    return dl_error_set_at(
        err, DL_ERR_DATA, costs->path, 0,
        "[costs] device = %s: not a GPU of %s, from which compute is to be scaled",
        costs->device != NULL ? costs->device : "", file->path);
}

/* Whether both GPUs' rates are known. */
static bool rates_of(const dl_gpu_model *from, const dl_gpu_model *to, int arithmetic, rates *r)
{
    const dl_quantity *a = arithmetic_of(from, arithmetic), *b = arithmetic_of(to, arithmetic);
    *r = (rates){{a->value, b->value},
                 {from->memory_bytes_per_s.value, to->memory_bytes_per_s.value}};
    return a->known && b->known;
}

static void scale_between(const dl_gpu_model *from, const dl_gpu_model *to, const rates *r,
                          dl_costs *costs, dl_scaling *scaling)
{
    snprintf(scaling->from, sizeof scaling->from, "%s", from->name);
    snprintf(scaling->to, sizeof scaling->to, "%s", to->name);
    scale_all(costs, r, scaling);
}

static dl_status scale_from(const dl_machine *file, const dl_scenario *scenario, dl_costs *costs,
                            dl_scaling *scaling, dl_error *err)
{
    const dl_gpu_model *to = only_model(&scenario->gpu->machine), *from = NULL;
    rates r;
    if (to == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, scenario->gpu->machine.path, 0,
                               "compute is not scaled to GPUs of several models");
    }
    if (costs->device != NULL && dl_scaling_is_model(costs->device, to->name)) return DL_OK;
    dl_status status = find_in(file, costs, &from, err);
    if (status != DL_OK) return status;
    if (!rates_of(from, to, scenario->scale_arithmetic, &r)) {
        const bool has = arithmetic_of(from, scenario->scale_arithmetic)->known;
        return dl_error_set_at(err, DL_ERR_DATA, has ? scenario->gpu->machine.path : file->path, 0,
                               "[gpu_model %s] lacks the rate that compute is scaled by",
                               has ? to->name : from->name);
    }
    scale_between(from, to, &r, costs, scaling);
    return DL_OK;
}

/* Whether a GPU is that of the costs: one of its name whose rates are those of the most special
 * name that is known to match ("A100-SXM4-80GB" is an a100 of 40 GB by name, not by its rates). */
static bool is_own(const dl_gpu_model *gpu, const char *device, const dl_gpu_model *known)
{
    if (!dl_scaling_is_model(device, gpu->name)) return false;
    const bool special = known->name != NULL && strlen(known->name) > strlen(gpu->name);
    rates r;
    return !special || !rates_of(known, gpu, 0, &r) ||
           (r.arithmetic[0] == r.arithmetic[1] && r.memory[0] == r.memory[1]);
}

/* The GPU of the machine that is not the costs' own; NULL: all are, or the costs name none. */
static const char *other_gpu(const dl_machine *m, const dl_costs *costs, const dl_gpu_model *known)
{
    const char *other = NULL;
    for (int g = 0; g < m->gpu_count && costs->device != NULL; g++) {
        const dl_gpu_model *gpu = &m->models[m->gpus[g].model];
        if (!is_own(gpu, costs->device, known)) other = gpu->name;
    }
    return other;
}

/* Scales if the costs' GPU is known; else says why not. */
static void scale_known(const dl_scenario *scenario, dl_costs *costs, const dl_gpu_model *from,
                        dl_scaling *scaling)
{
    const dl_gpu_model *to = only_model(&scenario->gpu->machine);
    rates r;
    if (to == NULL) {
        scaling->why_not = "the machine has GPUs of several models";
    } else if (from->name == NULL) {
        scaling->why_not = "no known machine has such a GPU; [workload] scale_compute names a "
                           "machine file that has";
    } else if (!rates_of(from, to, 0, &r)) {
        scaling->why_not = "a data-sheet rate of single precision is not known";
    } else {
        scale_between(from, to, &r, costs, scaling);
    }
}

dl_status dl_scaling_apply(const dl_scenario *scenario, dl_costs *costs, dl_scaling *scaling,
                           dl_error *err)
{
    *scaling = (dl_scaling){0};
    if (scenario->gpu == NULL) return DL_OK;
    if (scenario->scale_path != NULL && scenario->scale != DL_SCALE_NO) {
        dl_machine file = {0};
        dl_status status = dl_machine_open(&file, scenario->scale_path, err);
        if (status != DL_OK) return status;
        status = scale_from(&file, scenario, costs, scaling, err);
        dl_machine_free(&file);
        return status;
    }
    dl_gpu_model known = {0};
    if (costs->device != NULL) dl_known_gpu(costs->device, &known);
    const char *other = other_gpu(&scenario->gpu->machine, costs, &known);
    if (other != NULL) {
        snprintf(scaling->to, sizeof scaling->to, "%s", other);
        if (scenario->scale == DL_SCALE_NO) {
            scaling->why_not = "[workload] scale = no";
        } else {
            scale_known(scenario, costs, &known, scaling);
        }
        scaling->differs = !scaling->scaled;
    }
    free(known.name);
    return DL_OK;
}
