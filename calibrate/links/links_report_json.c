#include <math.h>

#include "calibrate/dataset.h"
#include "calibrate/links/links_report.h"
#include "common/json.h"
#include "common/options.h"

static void write_estimate(dl_json *to, const char *name, const dl_estimate *e, bool determined)
{
    dl_json_begin(to, name, '{');
    dl_json_number_item(to, "value", e->value);
    dl_json_number_item(to, "error", e->error);
    dl_json_bool_item(to, "determined", determined);
    dl_json_end(to, '}');
}

static void write_regimes(dl_json *to, const dl_link_result *result)
{
    dl_json_begin(to, "regimes", '[');
    for (size_t k = 0; k < result->fit.regime_count; k++) {
        const dl_link_regime *r = &result->fit.regimes[k];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "from_bytes", r->low_bytes);
        dl_json_number_item(to, "to_bytes", r->high_bytes); /* the last's: null */
        dl_json_number_item(to, "sizes", (double)r->latency_ns.count);
        write_estimate(to, "latency_ns", &r->latency_ns, r->latency_determined);
        write_estimate(to, "ns_per_byte", &r->ns_per_byte, r->bandwidth_determined);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
    dl_json_begin(to, "curve", '[');
    for (size_t i = 0; i < result->fit.vertex_count; i++) {
        const dl_link_vertex *v = &result->fit.vertices[i];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "bytes", v->bytes);
        dl_json_number_item(to, "time_ns", v->time_ns);
        dl_json_number_item(to, "error_ns", v->error_ns);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_points(dl_json *to, const dl_link_result *result)
{
    dl_json_begin(to, "sizes", '[');
    for (size_t i = 0; i < result->fit.count; i++) {
        const dl_link_point *p = &result->series->points[i];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "bytes", p->bytes);
        dl_json_number_item(to, "time_ns", p->time_ns);
        dl_json_number_item(to, "line", p->line);
        dl_json_number_item(to, "samples", (double)p->count);
        dl_json_number_item(to, "error_frac", result->fit.residual[i]);
        dl_json_bool_item(to, "outlier", result->fit.outlier[i]);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_errors(dl_json *to, const char *name, const dl_link_errors *errors)
{
    dl_json_begin(to, name, '{');
    dl_json_number_item(to, "sizes", (double)errors->count);
    dl_json_number_item(to, "mean_frac", errors->mean_frac);
    dl_json_number_item(to, "max_frac", errors->max_frac);
    dl_json_number_item(to, "max_bytes", errors->max_bytes);
    dl_json_end(to, '}');
}

static void write_judgements(dl_json *to, const dl_link_result *result)
{
    dl_json_begin(to, "left_out", '[');
    for (size_t begin = 0; begin < 2 && result->judged; begin++) {
        const dl_link_judgement *j = &result->judgement[begin];
        dl_json_begin(to, NULL, '{');
        write_errors(to, "regimes", &j->fit);
        write_errors(to, "regimes_without_outliers", &j->rest);
        write_errors(to, "regimes_at_even_sizes", &j->even);
        write_errors(to, "latency_and_bandwidth", &j->usual);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_series(dl_json *to, const dl_link_result *result)
{
    const dl_link_series *s = result->series;
    dl_json_begin(to, NULL, '{');
    dl_json_text_item(to, "file", dl_base_name(s->path));
    dl_json_text_item(to, "name", s->name);
    if (s->device != NULL) dl_json_text_item(to, "device", s->device);
    dl_json_bool_item(to, "collective", s->collective);
    dl_json_number_item(to, "ranks", s->ranks);
    dl_json_number_item(to, "nodes", s->nodes);
    dl_json_text_item(to, "place", dl_link_place_names[s->place]);
    write_regimes(to, result);
    dl_json_number_item(to, "rms_frac", result->fit.rms_frac);
    write_points(to, result);
    write_judgements(to, result);
    dl_json_end(to, '}');
}

static void write_rates(dl_json *to, const dl_link_data *data)
{
    dl_json_begin(to, "rates", '[');
    for (size_t i = 0; i < data->rate_count; i++) {
        const dl_link_rate *r = &data->rates[i];
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "file", dl_base_name(r->path));
        dl_json_text_item(to, "name", r->name);
        dl_json_text_item(to, "pair", r->pair);
        dl_json_number_item(to, r->is_latency ? "latency_ns" : "bytes_per_s", r->value);
        dl_json_number_item(to, "line", r->line);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

void dl_link_results_write_json(const dl_link_results *links, FILE *out)
{
    dl_json to = {out, false};
    dl_json_begin(&to, NULL, '{');
    dl_json_number_item(&to, "schema", 1);
    dl_json_text_item(&to, "program", "dlcal");
    dl_json_text_item(&to, "version", dl_version());
    dl_json_begin(&to, "series", '[');
    for (size_t i = 0; i < links->count; i++)
        write_series(&to, &links->results[i]);
    dl_json_end(&to, ']');
    write_rates(&to, links->data);
    dl_json_begin(&to, "notes", '[');
    for (size_t i = 0; i < links->notes.count; i++)
        dl_json_text_item(&to, NULL, links->notes.lines[i]);
    dl_json_end(&to, ']');
    dl_json_end(&to, '}');
    fputc('\n', out);
}
