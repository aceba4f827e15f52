#include "sim/scenario/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/root.h"
#include "sim/run.h"
#include "sim/workloads/architecture.h"

#define ROUNDS_MAX 60
#define PRECISION 1e-7 /* tolerance of the logarithm of the factor */

/* --- the key --------------------------------------------------------------------------------- */

#define STEP_MAX_NS 3.6e12 /* one hour */

static dl_status check_factor(double factor, dl_error *err)
{
    const double most = DL_CALIBRATE_FACTOR_MAX;
    if (factor >= 1 / most && factor <= most) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE,
                        "a number without a unit is a factor, from %g to %g; a measured step has "
                        "a unit, as 212ms",
                        1 / most, most);
}

/* Parses the number of "600/s", "600 samples/s" or "60000 tokens/s". */
static dl_status parse_rate(const char *text, double *per_s, dl_error *err)
{
    DL_AUTOFREE char *number = dl_strndup_trimmed(text, strspn(text, "0123456789.eE+-"));
    return dl_parse_double(number, 1e-6, 1e12, per_s, err);
}

/* Whether the text is a number of samples or, with *in_tokens, of tokens per second. */
static bool is_rate(const char *text, bool *in_tokens)
{
    static const char *const of_samples[] = {"/s", "samples/s", "images/s", "img/s"};
    const char *unit = text + strspn(text, "0123456789.eE+-");
    unit += strspn(unit, " ");
    *in_tokens = strcmp(unit, "tokens/s") == 0;
    return unit > text &&
           (*in_tokens || dl_names_find(unit, of_samples, DL_LENGTH(of_samples)) >= 0);
}

/* Parses "212 ms". */
static dl_status parse_step(const char *text, double *step_ns, dl_error *err)
{
    const size_t number = strspn(text, "0123456789.eE+-");
    if (number == 0 || text[number] == '\0') {
        return dl_error_set(err, DL_ERR_PARSE,
                            "expected a measured step, as 212ms, 212ms@8 (of 8 workers) or "
                            "212ms@8x32 (with 32 samples each), or its rate, as 600samples/s or "
                            "60000tokens/s");
    }
    dl_error why = {0};
    const dl_status status = dl_amount_parse(text, DL_DIMENSION_NS, step_ns, &why);
    if (status == DL_ERR_NAME)
        return dl_error_set(err, status,
                            "%s; rates, of all GPUs together: samples/s, images/s, tokens/s; for "
                            "it/s or s/it write the time of a step with all its micro-batches",
                            why.text);
    if (status != DL_OK) return dl_error_set(err, status, "%s", why.text);
    if (*step_ns > 0 && *step_ns <= STEP_MAX_NS) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE, "a step must take more than 0 s and at most %s",
                        DL_NS_TEXT(STEP_MAX_NS));
}

/* Parses "8" or "8x32", the text after '@'. */
static dl_status parse_calibrated_point(const char *text, dl_calibrate *calibrate, dl_error *err)
{
    const size_t bytes = strcspn(text, "x");
    int64_t workers = 0;
    DL_AUTOFREE char *number = dl_strndup_trimmed(text, bytes);
    dl_status status = dl_parse_int(number, 1, DL_WORKERS_MAX, &workers, err);
    calibrate->workers = (int)workers;
    if (status == DL_OK && text[bytes] == 'x')
        status = dl_parse_int(text + bytes + 1, 1, INT32_MAX, &calibrate->samples, err);
    return status;
}

/* Parses "1.31" or "1.31/5 ms"; false if the text is neither. */
static bool parse_factor(const char *text, dl_calibrate *calibrate)
{
    char *end = NULL;
    dl_error ignored = {0};
    calibrate->factor = strtod(text, &end);
    if (end == text || *end == '\0') return end != text;
    return *end == '/' &&
           dl_amount_parse(end + 1, DL_DIMENSION_NS, &calibrate->most_ns, &ignored) == DL_OK &&
           calibrate->most_ns > 0;
}

static dl_status parse_calibrate(const char *text, dl_calibrate *calibrate, dl_error *err)
{
    const char *factor = strchr(text, '=');
    *calibrate = (dl_calibrate){0};
    if (parse_factor(factor != NULL ? factor + 1 : text, calibrate)) {
        const dl_status status = check_factor(calibrate->factor, err);
        if (status != DL_OK || factor == NULL) return status;
    } else {
        *calibrate = (dl_calibrate){0};
        factor = NULL;
    }
    DL_AUTOFREE char *measured =
        dl_strndup_trimmed(text, factor != NULL ? (size_t)(factor - text) : strlen(text));
    const size_t bytes = strcspn(measured, "@");
    DL_AUTOFREE char *step = dl_strndup_trimmed(measured, bytes);
    dl_status status = is_rate(step, &calibrate->in_tokens)
                           ? parse_rate(step, &calibrate->per_s, err)
                           : parse_step(step, &calibrate->step_ns, err);
    if (status == DL_OK && measured[bytes] == '@')
        status = parse_calibrated_point(measured + bytes + 1, calibrate, err);
    if (status == DL_OK && factor != NULL && !(calibrate->step_ns > 0 && calibrate->samples > 0))
        return dl_error_set(err, DL_ERR_PARSE,
                            "with its factor a step is written as TIME@WORKERSxSAMPLES=FACTOR, as "
                            "in a saved scenario");
    return status;
}

dl_status dl_calibrate_read(dl_calibrate *calibrate, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "workload", "calibrate");
    dl_error inner = {0};
    if (entry == NULL) return DL_OK;
    const dl_status status = parse_calibrate(entry->value, calibrate, &inner);
    return status == DL_OK ? DL_OK : dl_ini_error(ini, entry, status, err, "%s", inner.text);
}

/* --- the measured point ---------------------------------------------------------------------- */

static int64_t samples_of(const dl_point *point)
{
    return point->batch / point->workers;
}

static const dl_point *with_fewest(const dl_scenario *scenario)
{
    const dl_point *fewest = &scenario->points[0];
    for (size_t p = 1; p < scenario->point_count; p++)
        if (scenario->points[p].workers < fewest->workers) fewest = &scenario->points[p];
    return fewest;
}

/* Finds the measured point among the scenario's points; if there is none, derives it from the point
 * with the fewest workers and the measured numbers of workers and samples. */
static dl_status find_point(const dl_scenario *scenario, const dl_calibrate *calibrate,
                            dl_point *found, dl_error *err)
{
    *found = *with_fewest(scenario);
    if (calibrate->workers == 0) return DL_OK;
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        if (point->workers != calibrate->workers ||
            (calibrate->samples > 0 && samples_of(point) != calibrate->samples))
            continue;
        *found = *point;
        return DL_OK;
    }
    if (dl_point_is_split(found) || found->gpu_count > 0) {
        return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                               "[workload] calibrate: no point has %d workers; where stages split "
                               "the model, or workers share GPUs, it must be one of the scenario's",
                               calibrate->workers);
    }
    if (scenario->gpu != NULL && dl_gpu_options_count(scenario->gpu) < calibrate->workers) {
        return dl_error_set_at(err, DL_ERR_RANGE, scenario->path, 0,
                               "[workload] calibrate: a step of %d workers, but %s has %d GPUs",
                               calibrate->workers, scenario->gpu->machine.name,
                               dl_gpu_options_count(scenario->gpu));
    }
    const int64_t samples = calibrate->samples > 0 ? calibrate->samples : samples_of(found);
    found->workers = calibrate->workers;
    found->batch = samples * calibrate->workers;
    found->gpus = NULL;
    return DL_OK;
}

/* --- the factor ------------------------------------------------------------------------------ */

static bool is_compute(const char *op)
{
    return dl_costs_is_phase(op, "forward") || dl_costs_is_phase(op, "backward") ||
           dl_costs_is_of_parameters(op);
}

void dl_calibrate_apply(dl_costs *costs, double factor)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        if (!is_compute(costs->ops[i].name)) continue;
        dl_value_scale(&costs->ops[i].fixed_ns, factor);
        dl_value_scale(&costs->ops[i].per_sample_ns, factor);
    }
    for (int m = 0; m < costs->model_count; m++)
        if (costs->models[m].own != NULL) dl_calibrate_apply(costs->models[m].own, factor);
}

typedef struct search {
    const dl_scenario *scenario;
    const dl_costs *costs;
    const dl_point *point;
    double step_ns; /* measured step, ns */
    dl_status status;
    dl_error *err;
} search;

/* Time of a worker's launches of a step, if it is assumed; else 0. */
static double assumed_launches_ns(const search *s)
{
    DL_AUTO(dl_costs_draw_free) dl_costs costs;
    DL_SCOPED(dl_assumptions) made = {0};
    dl_costs_draw(s->costs, NULL, &costs);
    if (costs.dispatch.per_worker_ns.known) return 0;
    dl_run_assume(s->scenario, &costs, s->point, &made);
    return costs.dispatch.per_worker_ns.known ? costs.dispatch.per_worker_ns.value : 0;
}

/* Predicts the step, in ns, with compute times multiplied by `factor` and with the assumptions that
 * follow from such costs. */
static double predict_ns(search *s, double factor)
{
    DL_AUTO(dl_costs_draw_free) dl_costs costs;
    DL_SCOPED(dl_assumptions) made = {0};
    DL_SCOPED(dl_run_result) result = {0};
    dl_costs_draw(s->costs, NULL, &costs);
    dl_calibrate_apply(&costs, factor);
    dl_run_assume(s->scenario, &costs, s->point, &made);
    DL_AUTOFREE char *missing =
        dl_costs_missing(&costs, dl_run_needs(s->scenario, &costs, s->point));
    const dl_run_config config = {.scenario = s->scenario, .costs = &costs, .point = s->point};
    if (missing != NULL) {
        s->status = dl_error_set_at(s->err, DL_ERR_DATA, s->costs->path, 0, "costs are missing: %s",
                                    missing);
    } else {
        s->status = dl_run(&config, &result, s->err);
    }
    return dl_s_to_ns(result.step_mean_s);
}

/* Predicted over measured step, minus 1; negative if the factor is too small. */
static double excess(double log_factor, void *user)
{
    search *s = user;
    const double ns = s->status == DL_OK ? predict_ns(s, exp(log_factor)) : 0;
    return s->status == DL_OK ? ns / s->step_ns - 1 : 0;
}

#define NOTABLE 1.1     /* factor above which computing is not the only possible cause */
#define NO_COMPUTE 1e-6 /* factor on compute that makes it negligible */

/* Returns the error. `limit` is the nearest allowed factor, with which a step takes limit_ns. */
static dl_status refuse(search *s, double limit, double limit_ns)
{
    char point[DL_POINT_TEXT_BYTES];
    const double alone_ns = limit < 1 ? predict_ns(s, NO_COMPUTE) : 0;
    if (s->status != DL_OK) return s->status;
    DL_AUTOFREE char *why =
        alone_ns >= s->step_ns
            ? dl_format("without any computing the step takes %s, for exchange, launches "
                        "and input",
                        DL_NS_TEXT(alone_ns))
            : dl_format("with compute %g times the estimate, the %s that is accepted, it is %s",
                        limit, limit < 1 ? "least" : "most", DL_NS_TEXT(limit_ns));
    return dl_error_set_at(
        s->err, DL_ERR_RANGE, s->scenario->path, 0,
        "[workload] calibrate = %s: not a step of %s: %s. Was it measured with other workers or "
        "another batch (STEP@8x32: 8 workers, 32 samples each), or on another machine?",
        DL_NS_TEXT(s->step_ns), dl_point_text(point, sizeof point, s->point), why);
}

/* Sets the step that follows from the measured rate. */
static dl_status take_rate(const dl_scenario *scenario, const dl_point *point,
                           dl_calibrate *calibrate, dl_error *err)
{
    DL_SCOPED(dl_architecture) network = {0};
    double items = (double)point->batch;
    if (calibrate->in_tokens) {
        if (scenario->model == NULL ||
            dl_architecture_make(&network, scenario->model, NULL) != DL_OK || network.sequence == 0)
            return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                                   "[workload] calibrate: a rate in tokens/s needs a [workload] "
                                   "model whose samples are sequences; give samples/s");
        items *= (double)network.sequence;
    }
    calibrate->step_ns = dl_s_to_ns(items / calibrate->per_s);
    return DL_OK;
}

dl_status dl_calibrate_find(const dl_scenario *scenario, const dl_costs *costs,
                            dl_calibrate *calibrate, dl_error *err)
{
    const double most = log(DL_CALIBRATE_FACTOR_MAX);
    dl_point point = {0};
    dl_status status = find_point(scenario, calibrate, &point, err);
    if (status != DL_OK) return status;
    calibrate->workers = point.workers;
    calibrate->samples = samples_of(&point);
    if (calibrate->per_s > 0) status = take_rate(scenario, &point, calibrate, err);
    if (status != DL_OK) return status;
    dl_costs own = *costs;
    search s = {scenario, &own, &point, calibrate->step_ns, DL_OK, err};
    const double launches_ns = assumed_launches_ns(&s);
    double at_least_ns = predict_ns(&s, 1 / DL_CALIBRATE_FACTOR_MAX);
    if (s.status == DL_OK && at_least_ns > s.step_ns && launches_ns > 0) {
        calibrate->most_ns = own.dispatch.most_ns = launches_ns * s.step_ns / at_least_ns;
        at_least_ns = predict_ns(&s, 1 / DL_CALIBRATE_FACTOR_MAX);
    }
    if (s.status != DL_OK) return s.status;
    const double at_most_ns = predict_ns(&s, DL_CALIBRATE_FACTOR_MAX);
    if (s.status != DL_OK) return s.status;
    if (at_least_ns > s.step_ns) return refuse(&s, 1 / DL_CALIBRATE_FACTOR_MAX, at_least_ns);
    if (at_most_ns < s.step_ns) return refuse(&s, DL_CALIBRATE_FACTOR_MAX, at_most_ns);
    calibrate->factor = exp(dl_find_root(excess, &s, -most, most, PRECISION, ROUNDS_MAX));
    if (s.status == DL_OK && calibrate->factor > NOTABLE && launches_ns > 0) {
        own.dispatch.per_worker_ns =
            (dl_value){.value = DL_LAUNCH_FACTOR * launches_ns, .known = true};
        calibrate->may_launch = predict_ns(&s, 1) >= s.step_ns;
    }
    return s.status;
}
