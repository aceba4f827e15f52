/* The cost file's writer. */
#include "sim/costs/costs_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/output.h"
#include "common/units.h"

#define NOISE_PER_LINE 12
#define TEXT_BYTES 180

static void write_line(FILE *out, const char *key, const dl_value *value)
{
    if (!value->known) return;
    fprintf(out, "%s = ", key);
    dl_value_write(out, value);
    fputc('\n', out);
}

/* Writes each line of `comment` after "; ". */
static void write_comment(FILE *out, const char *comment)
{
    while (comment != NULL && *comment != '\0') {
        size_t length = strcspn(comment, "\n");
        fprintf(out, "; %.*s\n", (int)length, comment);
        comment += length;
        if (*comment == '\n') comment++;
    }
}

static void write_head(FILE *out, const dl_costs *costs)
{
    fprintf(out, "[costs]\nschema = %d\n", DL_COSTS_SCHEMA);
    if (costs->workload != NULL) fprintf(out, "workload = %s\n", costs->workload);
    if (costs->precision != NULL) fprintf(out, "precision = %s\n", costs->precision);
    if (costs->device != NULL) fprintf(out, "device = %s\n", costs->device);
    if (costs->framework != NULL) fprintf(out, "framework = %s\n", costs->framework);
    const struct {
        const char *key;
        int64_t value, low;
    } numbers[] = {
        {"parameter_bytes", costs->parameter_bytes, 0},
        {"state_bytes", costs->state_bytes, 0},
        {"frozen_bytes", costs->frozen_bytes, 1},
        {"batch_min", costs->batch_min, 1},
        {"batch_max", costs->batch_max, 1},
        {"accumulate", costs->accumulate, 2},
        {"tensor_ranks", costs->tensor_ranks, 2},
        {"context_ranks", costs->context_ranks, 2},
        {"expert_ranks", costs->expert_ranks, 2},
        {"cores", costs->cores, 1},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value < numbers[i].low) continue;
        fprintf(out, "%s = %lld\n", numbers[i].key, (long long)numbers[i].value);
    }
    if (costs->overlap) fprintf(out, "overlap = yes\n");
    if (costs->sharded != DL_SHARDED_NONE)
        fprintf(out, "sharded = %s\n", dl_sharded_names[costs->sharded]);
    if (costs->keeps_parameters) fprintf(out, "reshard_after_forward = no\n");
    if (costs->half_gathers) fprintf(out, "param_dtype = bf16\n");
    if (costs->half_weights) fprintf(out, "half_weights = yes\n");
    if (costs->waits) fprintf(out, "waits = yes\n");
}

/* Writes six digits if they read back as the same float, else nine, which always do. */
static void write_factor(FILE *out, float factor)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", (double)factor);
    bool same = strtof(text, NULL) == factor;
    fprintf(out, same ? "%.6g" : "%.9g", (double)factor);
}

static void write_series(FILE *out, const dl_noise_series *series, size_t run, size_t copy)
{
    for (size_t i = 0; i < series->count; i++) {
        if (i % NOISE_PER_LINE == 0) {
            fprintf(out, "\nfactors_%zu_%zu_%zu = ", run + 1, copy + 1, i / NOISE_PER_LINE + 1);
        } else {
            fprintf(out, ", ");
        }
        write_factor(out, series->factors[i]);
    }
}

static void write_noise(FILE *out, const dl_noise_set *set)
{
    fprintf(out, "\n[noise");
    if (set->batch > 0) fprintf(out, " %lld", (long long)set->batch);
    if (set->copies > 1) fprintf(out, " copies %zu", set->copies);
    fprintf(out, "]");
    for (size_t run = 0; run < set->run_count; run++) {
        for (size_t copy = 0; copy < set->copies; copy++) {
            write_series(out, &set->series[run * set->copies + copy], run, copy);
        }
    }
    fprintf(out, "\n");
}

static void write_exchange_runs(FILE *out, const dl_costs *costs)
{
    if (costs->exchange_run_count > 0) fprintf(out, "\n[exchange_runs]\n");
    for (size_t i = 0; i < costs->exchange_run_count; i++) {
        const dl_exchange_run *run = &costs->exchange_runs[i];
        fprintf(out, "run_%zu = ", i + 1);
        write_factor(out, run->copy);
        fprintf(out, ", ");
        write_factor(out, run->average);
        fprintf(out, ", ");
        write_factor(out, run->update);
        if (costs->shared.push_bytes_per_s.known) {
            fprintf(out, ", ");
            write_factor(out, run->shared);
        }
        fprintf(out, "\n");
    }
}

static void write_gradients(FILE *out, const dl_costs *costs)
{
    if (costs->gradient_count > 0) fprintf(out, "\n[gradients]\n");
    for (size_t i = 0; i < costs->gradient_count; i++) {
        fprintf(out, "ready_%zu = %.9g, %.12g\n", i + 1, costs->gradients[i].share,
                costs->gradients[i].bytes);
    }
}

static void write_work(FILE *out, const dl_costs *costs)
{
    for (size_t i = 0; i < costs->work_step_count; i++) {
        fputs(i == 0 ? "\n[work]\nsteps = " : ", ", out);
        write_factor(out, costs->work_steps[i]);
    }
    if (costs->work_step_count > 0) fputc('\n', out);
}

static void write_collectives(FILE *out, const dl_costs *costs)
{
    for (size_t i = 0; i < costs->collective_count; i++) {
        const dl_collective_cost *c = &costs->collectives[i];
        char section[64];
        fprintf(out, "\n%s\n", dl_costs_section_text(section, sizeof section, c));
        if (c->nodes > 0) fprintf(out, "nodes = %d\n", c->nodes);
        for (size_t k = 0; k < c->start_count; k++) {
            fputs(k == 0 ? "starts = " : ", ", out);
            write_factor(out, c->starts[k]);
        }
        if (c->start_count > 0) fputc('\n', out);
        for (size_t t = 0; t < c->count; t++) {
            char bytes[DL_DOUBLE_TEXT_BYTES];
            fprintf(out, "bytes_%s = ", dl_format_double(bytes, c->times[t].bytes));
            dl_value_write(out, &c->times[t].time_ns);
            fputc('\n', out);
        }
    }
}

static void write_machine(FILE *out, const dl_costs *costs)
{
    const char *section = "";
    for (size_t i = 0; i < costs->machine_value_count; i++) {
        const dl_machine_value *value = &costs->machine_values[i];
        if (!value->value.known || value->of_machine > 0) continue;
        if (strcmp(section, value->section) != 0) fprintf(out, "\n[machine %s]\n", value->section);
        section = value->section;
        write_line(out, value->key->name, &value->value);
    }
}

/* Writes a name or note as one line that reads back unchanged apart from replaced characters: a ';'
 * after a blank would start a comment, and a ',' separates the items of a list. */
static void write_text(FILE *out, const char *text, bool in_list)
{
    char last = '\0';
    for (const char *c = text; *c != '\0'; last = *c++) {
        const bool breaks = (unsigned char)*c < ' ' || (in_list && *c == ',');
        const bool comments = *c == ';' && (last == ' ' || last == '\0');
        fputc(breaks ? ' ' : comments ? ',' : *c, out);
    }
}

static void write_trace(FILE *out, const dl_cost_trace *trace, size_t number)
{
    fprintf(out, "\n[trace %zu]\n", number);
    if (trace->file != NULL) {
        fputs("file = ", out);
        write_text(out, trace->file, false);
        fputc('\n', out);
    }
    if (trace->ranks > 0) fprintf(out, "ranks = %lld\n", (long long)trace->ranks);
    if (trace->rank >= 0) fprintf(out, "rank = %lld\n", (long long)trace->rank);
    fprintf(out, "batch = %lld\n", (long long)trace->batch);
    if (trace->stages > 1)
        fprintf(out, "stages = %lld\nschedule = %s\n", (long long)trace->stages,
                dl_schedule_names[trace->schedule]);
    if (trace->shards > 1) fprintf(out, "shards = %lld\n", (long long)trace->shards);
    if (trace->allreduces) fputs("allreduces = yes\n", out);
    write_line(out, "step_ns", &trace->step_ns);
    write_line(out, "recording_ns", &trace->recording_ns);
    for (size_t i = 0; i < trace->collective_count; i++) {
        const dl_traced_collective *c = &trace->collectives[i];
        fprintf(out, "collective_%zu = ", i + 1);
        write_text(out, c->name, true);
        fprintf(out, ", %.9g, %.12g, %.12g, %lld\n", c->calls, c->bytes, c->ns,
                (long long)c->ranks);
    }
}

static void write_traces(FILE *out, const dl_costs *costs)
{
    for (size_t i = 0; i < costs->trace_count; i++)
        write_trace(out, &costs->traces[i], i + 1);
    for (size_t i = 0; i < costs->note_count; i++) {
        fprintf(out, "%snote_%zu = ", i == 0 ? "\n[notes]\n" : "", i + 1);
        write_text(out, costs->notes[i], false);
        fputc('\n', out);
    }
}

static void write_all(FILE *out, const dl_costs *costs, const char *comment)
{
    write_comment(out, comment);
    write_head(out, costs);
    for (size_t i = 0; i < costs->op_count; i++) {
        fprintf(out, "\n[op %s]\n", costs->ops[i].name);
        write_line(out, "fixed_ns", &costs->ops[i].fixed_ns);
        write_line(out, "per_sample_ns", &costs->ops[i].per_sample_ns);
        write_line(out, "starts_frac", &costs->ops[i].starts_frac);
        write_line(out, "flop_per_sample", &costs->ops[i].flop_per_sample);
        write_line(out, "bytes_per_sample", &costs->ops[i].bytes_per_sample);
    }
    for (size_t i = 0; i < costs->layer_count; i++) {
        const dl_layer_cost *layer = &costs->layers[i];
        fprintf(out, "\n[layer %s]\n", layer->name);
        write_line(out, "output_bytes_per_sample", &layer->output_bytes_per_sample);
        write_line(out, "parameter_bytes", &layer->parameter_bytes);
        write_line(out, "activation_bytes_per_sample", &layer->activation_bytes_per_sample);
        write_line(out, "working_bytes_per_sample", &layer->working_bytes_per_sample);
        write_line(out, "cast_bytes", &layer->cast_bytes);
        write_line(out, "recast_bytes", &layer->recast_bytes);
        write_line(out, "tensor_bytes_per_sample", &layer->tensor_bytes_per_sample);
        write_line(out, "tensor_collectives_forward", &layer->tensor_collectives_forward);
        write_line(out, "tensor_collectives_backward", &layer->tensor_collectives_backward);
        write_line(out, "tensor_collectives_beside", &layer->tensor_collectives_beside);
        write_line(out, "tensor_beside_ns_per_sample", &layer->tensor_beside_ns_per_sample);
        write_line(out, "context_bytes_per_sample", &layer->context_bytes_per_sample);
        write_line(out, "context_forward_ns_per_sample", &layer->context_forward_ns_per_sample);
        write_line(out, "context_backward_ns_per_sample", &layer->context_backward_ns_per_sample);
        write_line(out, "context_forward_again", &layer->context_forward_again);
        write_line(out, "context_alltoalls", &layer->context_alltoalls);
        write_line(out, "expert_parameter_bytes", &layer->expert_parameter_bytes);
        write_line(out, "expert_bytes_per_sample", &layer->expert_bytes_per_sample);
        write_line(out, "expert_exchanges_forward", &layer->expert_exchanges_forward);
        write_line(out, "expert_exchanges_backward", &layer->expert_exchanges_backward);
        write_line(out, "expert_copies", &layer->expert_copies);
        write_line(out, "expert_count", &layer->expert_count);
    }
    const char *section = "";
    for (size_t i = 0; i < dl_cost_keys.count; i++) {
        const dl_key *key = &dl_cost_keys.rows[i];
        const dl_value *value = dl_cost_single_of(costs, key);
        if (value == NULL || !value->known) continue;
        if (strcmp(section, key->section) != 0) fprintf(out, "\n[%s]\n", key->section);
        section = key->section;
        write_line(out, key->name, value);
    }
    write_machine(out, costs);
    bool shared = false;
    for (int k = 1; k <= DL_SHARING_MAX; k++) {
        char key[24];
        if (costs->sharing[k].known && !shared) fprintf(out, "\n[sharing]\n");
        shared = shared || costs->sharing[k].known;
        snprintf(key, sizeof key, "copies_%d", k);
        write_line(out, key, &costs->sharing[k]);
    }
    if (costs->linearity_count > 0) fprintf(out, "\n[linearity]\n");
    for (size_t i = 0; i < costs->linearity_count; i++) {
        char key[32];
        snprintf(key, sizeof key, "batch_%lld", (long long)costs->linearity[i].batch);
        write_line(out, key, &costs->linearity[i].factor);
    }
    write_work(out, costs);
    write_gradients(out, costs);
    write_collectives(out, costs);
    write_exchange_runs(out, costs);
    for (size_t i = 0; i < costs->noise_count; i++)
        write_noise(out, &costs->noise[i]);
    write_traces(out, costs);
}

static dl_status check_text(const char *path, const char *text, dl_error *err)
{
    if (text == NULL || (strlen(text) <= TEXT_BYTES && strpbrk(text, "\r\n;]") == NULL)) {
        return DL_OK;
    }
    return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                           "'%.60s' cannot stand in an INI file: over %d bytes, a line break, a "
                           "semicolon or a bracket",
                           text, TEXT_BYTES);
}

dl_status dl_costs_write(const dl_costs *costs, const char *path, const char *comment,
                         dl_error *err)
{
    dl_status status = check_text(path, costs->workload, err);
    if (status == DL_OK) status = check_text(path, costs->precision, err);
    if (status == DL_OK) status = check_text(path, costs->device, err);
    if (status == DL_OK) status = check_text(path, costs->framework, err);
    for (size_t i = 0; i < costs->op_count && status == DL_OK; i++) {
        status = check_text(path, costs->ops[i].name, err);
    }
    if (status != DL_OK) return status;
    dl_output output = {0};
    status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    write_all(output.out, costs, comment);
    return dl_output_close(&output, err);
}
