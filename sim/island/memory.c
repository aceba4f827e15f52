#include "sim/island/memory.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

/* A layer's memory for a micro-batch. */
typedef struct layer {
    double bucket_bytes;  /* bytes of the parameters that are gathered with the layer */
    double gradient_part; /* fraction of the rank's gradients that its first backward pass adds */
    double kept, working;
    double cast, recast; /* of dl_layer_cost */
    bool is_last;        /* last layer of the model, which includes the loss */
} layer;

/* A run of layers that a pass processes. */
typedef struct piece {
    int first, count;
    double kept, logits_kept; /* logits_kept: part of kept */
    double cast;              /* copies of weights from the end of the forward pass on */
} piece;

typedef struct walk {
    const dl_memory_rank *rank;
    layer *layers; /* [count] layers of the model */
    int count;
    piece pieces[DL_STAGE_CHUNKS_MAX];
    dl_gpu_content base;  /* permanent content */
    double kept, logits;  /* activations and logits of passes in flight */
    double cast;          /* their copies of weights */
    double gradient_part; /* fraction of the rank's gradients that exist; below 1 at most until the
                           * end of the first backward pass */
    dl_gpu_content most;
    double pass_bytes;        /* peak of this pass */
    bool has_most, by_layers; /* by_layers: a bucket is a layer's parameters */
    bool copied;              /* gradients lie beside their buckets, half of base.gradients */
    dl_gpu_content *course;   /* [course_count] all moments, unless NULL */
    size_t course_count;
} walk;

/* --- layers ----------------------------------------------------------------------------------- */

/* Bytes of the largest bucket of parameters. */
static double largest_bucket(const dl_memory_rank *rank)
{
    const dl_costs *costs = rank->costs;
    const double all = rank->parameter_bytes;
    double largest = 0;
    if (!rank->options->own_buckets || rank->split.stages > 1 || costs->gradient_count == 0)
        return rank->options->bucket_bytes > 0 ? fmin(all, (double)rank->options->bucket_bytes)
                                               : all;
    for (size_t i = 0; i < costs->gradient_count; i++)
        largest =
            fmax(largest, costs->gradients[i].bytes - (i > 0 ? costs->gradients[i - 1].bytes : 0));
    return all * largest / costs->gradients[costs->gradient_count - 1].bytes;
}

/* Whether a bucket is a layer with parameters. */
static bool buckets_are_layers(const dl_memory_rank *rank, const dl_model_layers *model)
{
    size_t with = 0;
    for (int l = 0; l < model->count; l++)
        with += model->layers[l].parameter_bytes.value > 0;
    return rank->options->own_buckets && rank->split.stages == 1 &&
           rank->costs->gradient_count == with;
}

/* Sets the bytes that each layer keeps: those of its costs or, if any layer lacks them, its share
 * of all activations by its output, as kept activations are about as large as outputs. Without
 * stages the model then counts as one layer. */
static void take_layers(walk *w, const dl_model_layers *model)
{
    const dl_memory_rank *rank = w->rank;
    const dl_value *all = &rank->costs->gpu_memory.activation_bytes_per_sample;
    const double samples = rank->split.samples, bucket = largest_bucket(rank);
    const bool casts = rank->plan.sharers == 1 || rank->options->param_dtype != DL_DTYPE_BF16;
    double outputs = 0;
    bool known = model->count > 0;
    for (int l = 0; l < model->count; l++) {
        known = known && model->layers[l].activation_bytes.known;
        outputs += dl_value_or_nan(&model->layers[l].output_bytes);
    }
    for (int l = 0; l < model->count; l++) {
        const dl_model_layer *of = &model->layers[l];
        w->layers[l] = (layer){
            .bucket_bytes = w->by_layers ? of->parameter_bytes.value : bucket,
            .gradient_part = of->parameter_bytes.value / rank->parameter_bytes / (1 + w->copied),
            .kept = samples * (known ? of->activation_bytes.value
                                     : dl_value_or_nan(all) * of->output_bytes.value / outputs),
            .working = samples * of->working_bytes,
            .cast = casts ? of->cast_bytes : 0,
            .recast = casts ? of->recast_bytes : 0,
            .is_last = l == model->count - 1 && of->working_bytes > 0,
        };
    }
    if (known || rank->first != NULL) return;
    w->count = 1;
    w->by_layers = false;
    w->layers[0] = (layer){.bucket_bytes = bucket, .kept = dl_value_or_nan(all) * samples};
}

static void take_pieces(walk *w)
{
    const dl_split *split = &w->rank->split;
    for (int c = 0; c < split->chunks; c++) {
        const int *cut = w->rank->first + c * split->stages + w->rank->stage;
        piece *p = &w->pieces[c];
        *p = w->rank->first != NULL && w->count > 1
                 ? (piece){.first = cut[0], .count = cut[1] - cut[0]}
                 : (piece){.count = w->count};
        for (int l = p->first; l < p->first + p->count; l++) {
            p->kept += w->layers[l].kept;
            p->cast += w->layers[l].cast - w->layers[l].recast;
            if (w->layers[l].is_last) p->logits_kept = w->layers[l].kept;
        }
    }
}

/* --- at all times ---------------------------------------------------------------------------- */

/* 16-bit gradients of the largest block, i.e. layer that is neither the first nor the last. */
static double block_gradients(const walk *w, const dl_model_layers *model)
{
    double most = 0;
    for (int c = 0; c < w->rank->split.chunks; c++) {
        const piece *p = &w->pieces[c];
        for (int l = p->first > 0 ? p->first : 1; l < p->first + p->count && l < model->count - 1;
             l++)
            most = fmax(most, model->layers[l].parameter_bytes.value);
    }
    return most / 2;
}

/* Bytes of frozen parameters; the rank's stage has the same fraction of them as of the trained
 * ones. */
static double frozen_bytes(const dl_memory_rank *rank)
{
    const double all = (double)rank->costs->frozen_bytes;
    return all > 0 ? all * rank->parameter_bytes / (double)rank->costs->parameter_bytes : 0;
}

static void take_base(walk *w, const dl_model_layers *model)
{
    const dl_memory_rank *rank = w->rank;
    const dl_exchange_plan *plan = &rank->plan;
    const bool half = rank->costs->half_weights && !plan->divides_parameters;
    const int versions = dl_pipeline_versions(rank->schedule, &rank->split, rank->stage);
    const int parts = dl_split_is_sharded(&rank->split) ? rank->split.shards : plan->sharers;
    const double all = rank->parameter_bytes;
    const double spread = dl_split_spread(&rank->split, rank->expert_frac);
    const double part = parts > 1 ? all * spread / parts : all;
    const double sent = plan->gather_frac, summed = plan->sum_frac;
    const double bucket = largest_bucket(rank);
    const double inner = rank->state_bytes + (half ? all : 0);
    /* Unknown state stays unknown, as the server may be on a GPU too. */
    const double state =
        (rank->is_served && !isnan(inner) ? 0 : inner) + (rank->has_outer ? 2 * all : 0);
    double weights = half ? all / 2 : all, gradients = summed * all, gathered = 0;
    if (sent < 1 && !half) weights = part + sent * all;
    if (plan->divides_gradients) gradients = fmin(gradients, part + summed * bucket);
    if (plan->divides_parameters) {
        weights = gradients = part;
        if (plan->gathers == 1 || rank->split.stages > 1) gathered = sent * all;
        if (rank->split.stages > 1) gathered += summed * all;
    }
    /* Gradients of the previous step, and parameters gathered during the passes of this one. */
    if (plan->late > 0 && plan->gathers_after) gathered = (summed + sent) * all;
    if (half) gradients += block_gradients(w, model);
    if (w->copied) gradients *= 2;
    const double frozen = frozen_bytes(rank);
    w->base = (dl_gpu_content){
        .parameters = weights * versions + (plan->divides_parameters ? frozen / parts : frozen),
        .gradients = gradients,
        .optimizer = plan->sharers > 1 ? state * spread / plan->sharers : state,
        .gathered = gathered,
        .workspace = dl_value_or_nan(&rank->costs->gpu_memory.workspace_bytes),
    };
}

/* --- moments --------------------------------------------------------------------------------- */

static double bucket_at(const walk *w, const piece *p, int l)
{
    return l >= p->first && l < p->first + p->count ? w->layers[l].bucket_bytes : 0;
}

/* FSDP's gathered bytes: parameters of the layer and the next one; in the backward pass also the
 * layer's gradients, and the previous layer's, which are being reduced. */
static double gathered_at(const walk *w, const piece *p, int l, bool forward)
{
    const dl_memory_rank *rank = w->rank;
    const double sent = rank->plan.gather_frac, all = sent * rank->parameter_bytes;
    if (!rank->plan.divides_parameters) return 0;
    const double here = bucket_at(w, p, l);
    const double next = w->by_layers ? bucket_at(w, p, forward ? l + 1 : l - 1) : here;
    const double before = w->by_layers ? bucket_at(w, p, l + 1) : here;
    const double parameters = w->base.gathered > 0 ? 0 : fmin(all, sent * (here + next));
    if (forward || rank->split.stages > 1) return parameters;
    return parameters +
           fmin(all, (sent - rank->options->frozen_frac) * here + rank->plan.sum_frac * before);
}

static void look(walk *w, const dl_gpu_content *content)
{
    const double bytes = dl_gpu_content_bytes(content);
    w->pass_bytes = fmax(w->pass_bytes, bytes);
    if (w->course != NULL) w->course[w->course_count++] = *content;
    if (w->has_most && !(bytes > dl_gpu_content_bytes(&w->most) * (1 + 1e-12))) return;
    w->most = *content;
    w->has_most = true;
}

/* Examines the moment when layer `l` of the pass computes while it and the earlier layers of the
 * piece keep `kept` and `cast`. */
static void look_at(walk *w, dl_pass_of of, bool forward, int l, double kept, double cast)
{
    const piece *p = &w->pieces[of.chunk];
    const layer *at = &w->layers[l];
    dl_gpu_content c = w->base;
    c.gathered += gathered_at(w, p, l, forward);
    c.gradients *= w->gradient_part;
    c.parameters += w->cast + cast;
    const double own_logits = at->is_last ? at->kept : 0;
    c.activations = w->kept - w->logits + kept - own_logits;
    c.logits = w->logits + own_logits + (at->is_last ? at->working : 0);
    c.working = at->is_last || forward ? 0 : at->working;
    const bool ends = forward && l == p->first + p->count - 1;
    c.at = (dl_gpu_moment){.forward = forward,
                           .in_loss = at->is_last,
                           .micro_batch = of.micro_batch,
                           .chunk = of.chunk,
                           .layer = ends || w->count == 1 ? -1 : l};
    look(w, &c);
}

static void go_forward(walk *w, dl_pass_of of)
{
    const piece *p = &w->pieces[of.chunk];
    double kept = 0, cast = 0;
    for (int l = p->first; l < p->first + p->count; l++) {
        kept += w->layers[l].kept;
        cast += w->layers[l].cast;
        look_at(w, of, true, l, kept, cast);
    }
    w->kept += p->kept;
    w->cast += p->cast;
    w->logits += p->logits_kept;
}

static void add_gradients(walk *w, int l)
{
    w->gradient_part = fmin(1, w->gradient_part + w->layers[l].gradient_part);
}

static void go_backward(walk *w, dl_pass_of of)
{
    const piece *p = &w->pieces[of.chunk];
    double kept = p->kept, cast = p->cast;
    w->kept -= p->kept;
    w->logits -= p->logits_kept;
    w->cast -= p->cast;
    for (int l = p->first + p->count - 1; l >= p->first; l--) {
        /* Those of shards are in `gathered` at first; those of the last layer are made when its
         * scores are freed. */
        const bool beside = !w->rank->plan.divides_parameters && !w->layers[l].is_last;
        if (beside) add_gradients(w, l);
        look_at(w, of, false, l, kept, cast + w->layers[l].recast);
        kept -= w->layers[l].kept;
        cast -= w->layers[l].cast - w->layers[l].recast;
        if (!beside) add_gradients(w, l);
    }
    w->gradient_part = 1;
}

/* Whether the optimizer frees the gradients at the end of a step (zero_grad, set_to_none), so that
 * they grow in the first backward pass: without layers that is unknown, and buckets, Megatron-LM's
 * buffers, those of a divided optimizer and late ones stay. */
static bool frees_gradients(const walk *w)
{
    const dl_exchange_plan *plan = &w->rank->plan;
    if (plan->divides_parameters) return w->by_layers;
    return w->count > 1 && plan->bucket_copies == 0 && plan->sharers == 1 && plan->late == 0 &&
           !w->rank->costs->half_weights;
}

static double after(const walk *w)
{
    return dl_gpu_content_bytes(&w->base) - (1 - w->gradient_part) * w->base.gradients + w->kept +
           w->cast;
}

/* Number of micro-batches to examine: passes repeat, so these represent any larger number. */
static int enough(const dl_memory_rank *rank)
{
    const dl_split *split = &rank->split;
    const int steady = 3 * split->stages * split->chunks;
    if (!dl_schedule_flushes(rank->schedule)) return steady;
    const bool all = rank->schedule == DL_SCHEDULE_GPIPE && split->stages > 1;
    return all || split->micro_batches < steady ? split->micro_batches : steady;
}

/* Examines all passes of a step. Fills `passes` and `course` unless NULL; sets *course_count. */
static dl_gpu_content walk_over(const dl_memory_rank *rank, const dl_model_layers *model,
                                dl_memory_pass *passes, dl_gpu_content *course,
                                size_t *course_count)
{
    dl_split split = rank->split;
    walk w = {.rank = rank, .count = model->count, .gradient_part = 1, .course = course};
    w.layers = dl_calloc((size_t)model->count + 1, sizeof *w.layers, "layers");
    w.by_layers = buckets_are_layers(rank, model);
    w.copied = rank->plan.bucket_copies > 1 && !rank->costs->half_weights;
    take_layers(&w, model);
    take_pieces(&w);
    take_base(&w, model);
    if (frees_gradients(&w)) w.gradient_part = 0;
    if (w.copied) w.gradient_part = 0.5; /* the buckets */
    if (passes == NULL && course == NULL) split.micro_batches = enough(rank);
    int done[2] = {0, 0};
    for (int p = 0; p < 2 * split.micro_batches * split.chunks; p++) {
        const bool forward = dl_pipeline_is_forward(rank->schedule, &split, rank->stage, p);
        const dl_pass_of of = dl_pipeline_find_pass(&split, forward, done[forward]++);
        w.pass_bytes = 0;
        if (forward) {
            go_forward(&w, of);
        } else {
            go_backward(&w, of);
        }
        if (passes != NULL) passes[p] = (dl_memory_pass){w.pass_bytes, after(&w)};
    }
    free(w.layers);
    if (course_count != NULL) *course_count = w.course_count;
    return w.most;
}

dl_gpu_content dl_memory_of_rank(const dl_memory_rank *rank, dl_memory_pass *passes)
{
    DL_SCOPED(dl_model_layers) model = {0};
    if (rank->model == NULL) dl_model_layers_init(&model, rank->costs);
    return walk_over(rank, rank->model != NULL ? rank->model : &model, passes, NULL, NULL);
}

dl_gpu_content *dl_memory_course(const dl_memory_rank *rank, size_t *count)
{
    DL_SCOPED(dl_model_layers) model;
    dl_model_layers_init(&model, rank->costs);
    const size_t passes = 2 * (size_t)(rank->split.micro_batches * rank->split.chunks);
    dl_gpu_content *course =
        dl_calloc(passes * (size_t)model.count + 1, sizeof *course, "contents of a step");
    walk_over(rank, &model, NULL, course, count);
    return course;
}

char *dl_memory_when(const dl_memory_rank *rank, const dl_gpu_moment *at)
{
    const dl_split *split = &rank->split;
    char *of = split->micro_batches > 1 ? dl_format("micro-batch %d", at->micro_batch) : NULL;
    char *chunk = split->chunks > 1 ? dl_format("chunk %d", at->chunk) : NULL;
    DL_SCOPED(dl_model_layers) model;
    dl_model_layers_init(&model, rank->costs);
    if (chunk != NULL) {
        dl_join(&of, ", ", chunk);
        free(chunk);
    }
    char *text = at->in_loss ? dl_strdup("in the loss")
                 : at->layer >= 0
                     ? dl_format("in the %s pass of %s", at->forward ? "forward" : "backward",
                                 model.layers[at->layer].name)
                     : dl_format("at the %s of the %s pass", at->forward ? "end" : "start",
                                 at->forward ? "forward" : "backward");
    if (of != NULL) {
        dl_extend(&text, "%s%s", at->in_loss || at->layer < 0 ? " of " : ", ", of);
        free(of);
    }
    return text;
}
