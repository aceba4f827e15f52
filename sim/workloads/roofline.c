/* Times of kernels and layers from the rates, and the costs of training. */
#include "sim/workloads/roofline.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/costs/assume.h"

#define PARAMETER_BYTES 4
#define WORKSPACE_BYTES 1e9 /* memory of the driver and of libraries: assumed */

static const char *const optimizer_names[] = {"sgd", "momentum", "adam", "adam8bit"};

/* Size of an 8-bit state, with its share of the 32-bit scale of 256 states (torchao/optim/adam.py,
 * AdamW8bit's block_size), relative to 4 bytes. */
#define STATE_8BIT ((1 + 4 / 256.) / 4)

static const double state_numbers[] = {0, 1, 2, 2 * STATE_8BIT};
static const double moved_numbers[] = {3, 5, 7, 3 + 4 * STATE_8BIT};

/* Returns the measured rates of a kind of moves; NULL: those of the roofline hold for it. */
static const dl_move_rates *rates_of(const dl_roofline *roofline, dl_move_kind kind)
{
    const dl_gpu_kernels *kernels = roofline->kernels;
    return kernels != NULL && kernels->moves[kind].bytes_per_s.known ? &kernels->moves[kind] : NULL;
}

/* Returns the measured rates of a part of attention; NULL: none. */
static const dl_attention_rates *measured_attention(const dl_roofline *roofline,
                                                    const dl_layer_part *part)
{
    const dl_gpu_kernels *kernels = roofline->kernels;
    if (kernels == NULL || !part->attention || !kernels->attention[0].flop_per_s.known) return NULL;
    return &kernels->attention[part->reverse];
}

double dl_roofline_product_ns(const dl_product_rates *rates, double flop, double weight_bytes,
                              double other_bytes)
{
    return rates->fixed_ns.value + DL_NS_PER_S * weight_bytes / rates->bytes_per_s.value +
           DL_NS_PER_S *
               fmax(flop / rates->flop_per_s.value, other_bytes / rates->bytes_per_s.value);
}

static bool in_half(const dl_roofline *roofline)
{
    return roofline->bytes_per_number < 4;
}

static bool in_low(const dl_roofline *roofline)
{
    return roofline->low_flop_per_s > 0;
}

static double part_bytes(const dl_roofline *roofline, const dl_layer_part *part)
{
    const bool halves = in_half(roofline);
    const double narrow = part->numbers - part->wide + (roofline->tensor_cores ? part->turned : 0) +
                          (halves ? part->in_half : 0);
    return narrow * roofline->bytes_per_number + part->wide * 4 + (halves ? part->casts * 6 : 0) -
           (in_low(roofline) ? (2 - roofline->low_bytes) * part->low.read : 0);
}

/* Bytes moved by the kernels that convert numbers of 16 bits before the part. */
static double made_bytes(const dl_roofline *roofline, const dl_layer_part *part)
{
    const double written = part->low.layouts * roofline->low_bytes;
    return in_low(roofline) ? (roofline->low_read_bytes + written) * part->low.made : 0;
}

static double pass_bytes(const dl_roofline *roofline, const dl_layer_pass *pass)
{
    double sum = 0;
    for (int p = 0; p < pass->count; p++)
        sum += part_bytes(roofline, &pass->parts[p]) + made_bytes(roofline, &pass->parts[p]);
    return sum;
}

static double kept_bytes(const dl_roofline *roofline, double numbers, double wide, double half)
{
    return (numbers - wide + (in_half(roofline) ? half : 0)) * roofline->bytes_per_number +
           wide * 4;
}

static double kept_of(const dl_roofline *roofline, const dl_architecture_layer *layer)
{
    return kept_bytes(roofline, layer->kept_numbers, layer->kept_wide, layer->kept_in_half) +
           (in_low(roofline)
                ? roofline->low_bytes * layer->kept_low_more -
                      (2 - roofline->low_bytes) * layer->kept_low_instead + layer->kept_eight_bytes
                : 0);
}

static double working_of(const dl_roofline *roofline, const dl_architecture_layer *layer)
{
    return kept_bytes(roofline, layer->working_numbers, layer->working_wide, 0);
}

/* Peak bytes per sample over all layers: activations saved up to the layer, plus its temporary
 * memory. */
static double most_bytes(const dl_roofline *roofline, const dl_architecture *architecture)
{
    double kept = 0, most = 0;
    for (size_t l = 0; l < architecture->layer_count; l++) {
        kept += kept_of(roofline, &architecture->layers[l]);
        most = fmax(most, kept + working_of(roofline, &architecture->layers[l]));
    }
    return most;
}

static double attention_rate(const dl_roofline *roofline, const dl_layer_part *part)
{
    const dl_attention_rates *measured = measured_attention(roofline, part);
    if (measured != NULL) return measured->flop_per_s.value / roofline->longer;
    const double half = roofline->attention_half_keys[part->attention];
    const double slower = part->keys > 0 ? 1 + half / part->keys : 1;
    return roofline->attention_flop_per_s[part->attention][part->reverse] / slower;
}

static double flop_rate(const dl_roofline *roofline, const dl_layer_part *part)
{
    const bool odd = fmod(part->odd_columns * roofline->bytes_per_number, 16) > 0;
    if (in_low(roofline) && part->low.made > 0) return roofline->low_flop_per_s;
    return odd                   ? roofline->odd_flop_per_s
           : part->attention     ? attention_rate(roofline, part)
           : part->small_windows ? roofline->small_windows_flop_per_s
                                 : roofline->flop_per_s;
}

/* Time of a part's products from measured kernels: the time per sample, and the time independent of
 * the batch. The part's gradients have equal shares of its flop, bytes and kernels. */
static dl_pass_time measured_time(const dl_roofline *roofline, const dl_layer_part *part)
{
    const int gradients = part->product.gradients, each = gradients > 0 ? gradients : 1;
    const double weights = part->weights * roofline->bytes_per_number / each;
    dl_pass_time time = {0, 0};
    for (int g = 0; g < each; g++) {
        const dl_product_rates *rates =
            &roofline->kernels->products[gradients > 0 ? DL_PRODUCT_DATA + g : DL_PRODUCT_FORWARD];
        const double fixed_ns = rates->fixed_ns.value;
        time.per_sample_ns +=
            dl_roofline_product_ns(rates, part->flop / each, 0, part_bytes(roofline, part) / each) -
            fixed_ns;
        time.fixed_ns += dl_roofline_product_ns(rates, 0, weights, 0) - fixed_ns +
                         fixed_ns * part->kernels / each;
    }
    time.per_sample_ns *= roofline->longer;
    time.fixed_ns *= roofline->longer;
    return time;
}

static bool is_product(const dl_layer_part *part)
{
    return part->flop > 0 && !part->attention;
}

/* Time of a part per sample in ns, without its fixed time. */
static double part_ns(const dl_roofline *roofline, const dl_layer_part *part)
{
    const dl_move_rates *own = part->flop > 0 ? NULL : rates_of(roofline, part->kind);
    const double byte_ns = DL_NS_PER_S / (own != NULL ? own->bytes_per_s.value / roofline->longer
                                                      : roofline->bytes_per_s);
    if (roofline->kernels != NULL && is_product(part))
        return measured_time(roofline, part).per_sample_ns;
    return fmax(DL_NS_PER_S * part->flop / flop_rate(roofline, part),
                part_bytes(roofline, part) * byte_ns) +
           made_bytes(roofline, part) * byte_ns;
}

/* Additional time of the experts' products for one sample, because they read all weights, and the
 * product for the weights' gradients reads and writes 32-bit sums, as far as computing and reading
 * the sample do not hide this traffic. With more samples this is an upper limit. */
static double experts_ns(const dl_roofline *roofline, const dl_layer_part *part)
{
    const double byte_ns = DL_NS_PER_S / roofline->bytes_per_s;
    const int gradients = part->product.gradients, each = gradients > 0 ? gradients : 1;
    const double flop_ns = DL_NS_PER_S * part->flop / flop_rate(roofline, part) / each;
    const double moved = part_bytes(roofline, part) / each;
    double sum = 0;
    for (int g = 0; g < each; g++) {
        const double read = in_low(roofline) ? roofline->low_bytes : 2;
        const double bytes = part->expert_weights * (g == 0 ? read : part->expert_sums ? 8 : 0);
        sum += fmax(flop_ns, (moved + bytes) * byte_ns) - fmax(flop_ns, moved * byte_ns);
    }
    return sum;
}

/* Time of each of a part's own kernels that are not products, in addition to its roofline. */
static double each_ns(const dl_roofline *roofline, const dl_layer_part *part)
{
    const dl_attention_rates *attention = measured_attention(roofline, part);
    const dl_move_rates *own = part->flop > 0 ? NULL : rates_of(roofline, part->kind);
    return attention != NULL ? attention->fixed_ns.value * roofline->longer / part->kernels
           : own != NULL     ? own->fixed_ns.value * roofline->longer
                             : roofline->kernel_ns;
}

dl_pass_time dl_roofline_pass(const dl_roofline *roofline, const dl_layer_pass *pass)
{
    const double byte_ns = DL_NS_PER_S / roofline->bytes_per_s;
    dl_pass_time time = {0, 0};
    for (int p = 0; p < pass->count; p++) {
        const dl_layer_part *part = &pass->parts[p];
        const bool product = is_product(part);
        const bool measured = product && roofline->kernels != NULL;
        /* Data sheets: product_ns was fitted without products of single experts, so a call has one. */
        const int calls = part->kernels / (part->product.singly > 0 ? part->product.singly : 1);
        const int others = (in_half(roofline) ? part->kernels_in_half : 0) +
                           (in_low(roofline) ? part->low.kernels : 0);
        const double weights = in_half(roofline) ? part->half_weights
                               : measured        ? 0
                                                 : part->weights;
        time.per_sample_ns += part_ns(roofline, part);
        time.fixed_ns += byte_ns * roofline->bytes_per_number * weights +
                         others * roofline->kernel_ns +
                         (product ? 0 : part->kernels * each_ns(roofline, part)) +
                         (measured  ? measured_time(roofline, part).fixed_ns
                          : product ? calls * roofline->product_ns
                                    : 0);
        if (part->expert_weights > 0 && in_half(roofline) && !measured)
            time.fixed_ns += experts_ns(roofline, part);
    }
    return time;
}

double dl_roofline_update_ns(const dl_roofline *roofline, double parameters,
                             dl_optimizer_kind optimizer)
{
    const dl_move_rates *own = rates_of(roofline, DL_MOVE_UPDATE);
    const double rate =
        own != NULL ? own->bytes_per_s.value / roofline->longer : roofline->bytes_per_s;
    return DL_NS_PER_S * parameters * PARAMETER_BYTES * moved_numbers[optimizer] / rate +
           (own != NULL ? own->fixed_ns.value * roofline->longer : 0);
}

/* Time, in ns, to copy the gradients of `tensors` tensors into the buckets of
 * DistributedDataParallel and back: two copies each, at the reached memory rate. */
static double bucket_ns(const dl_roofline *roofline, double parameters, int tensors)
{
    const double passes = 4; /* a read and a write into the bucket, and a read and a write back */
    return DL_NS_PER_S * parameters * PARAMETER_BYTES * passes / roofline->bytes_per_s +
           2 * tensors * (double)DL_ROOFLINE_COPY_NS;
}

/* --- costs ----------------------------------------------------------------------------------- */

static dl_value assumed(double value)
{
    return (dl_value){.known = true, .value = value, .origin = DL_ORIGIN_ASSUMED};
}

/* Host launches per collective: streams are synchronized before and after it. */
#define LAUNCHES_OF_COLLECTIVE 2

/* Bytes per sample copied to the GPU: pixels as float; tokens as 8-byte indices, with the same
 * number of targets. */
static double input_bytes(const dl_architecture *architecture)
{
    return (4 * architecture->input_numbers + 16 * (double)architecture->sequence) /
           architecture->context;
}

static int64_t frozen_bytes(const dl_architecture *architecture, const dl_roofline *roofline)
{
    const int bits = architecture->frozen_bits > 0 ? architecture->frozen_bits
                                                   : 8 * (int)roofline->bytes_per_number;
    const int64_t packed = dl_architecture_packed(architecture);
    return (dl_architecture_frozen(architecture) - packed) * bits / 8 +
           (int64_t)((double)packed * architecture->packed_bits / 8);
}

static void set_op(dl_op_cost *op, const char *layer, const char *phase,
                   const dl_roofline *roofline, const dl_layer_pass *pass)
{
    const dl_pass_time time = dl_roofline_pass(roofline, pass);
    *op = (dl_op_cost){
        .name = dl_format("%s.%s", layer, phase),
        .fixed_ns = assumed(time.fixed_ns),
        .per_sample_ns = assumed(time.per_sample_ns),
        .flop_per_sample = assumed(dl_pass_flop(pass)),
        .bytes_per_sample = assumed(pass_bytes(roofline, pass)),
    };
}

/* Sets [gradients]. Buckets are filled from the last tensor backwards, or with `units` from the
 * last layer. If the network has frozen parameters, each unit is a bucket, even with few trained
 * parameters. */
static void set_gradients(dl_costs *costs, const dl_architecture *architecture,
                          const dl_roofline *roofline, bool units)
{
    const size_t count = (size_t)dl_architecture_tensors(architecture);
    dl_gradients_ready *ready = dl_calloc(count, sizeof *ready, "gradients");
    double all_ns = 0, bytes = 0;
    size_t i = 0;
    for (size_t l = architecture->layer_count; l-- > 0;) {
        const dl_architecture_layer *layer = &architecture->layers[l];
        const size_t first = i;
        int tensor = layer->tensor_kinds;
        for (int p = layer->backward.count; p-- > 0;) {
            all_ns += part_ns(roofline, &layer->backward.parts[p]);
            for (; tensor > 0 && layer->tensors[tensor - 1].part == p; tensor--) {
                for (int c = 0; c < layer->tensors[tensor - 1].count; c++) {
                    bytes += (double)layer->tensors[tensor - 1].parameters * PARAMETER_BYTES;
                    ready[i++] = (dl_gradients_ready){all_ns, bytes};
                }
            }
        }
        DL_ASSERT(tensor == 0, "%s: tensors without a backward pass", layer->name);
        if (!units || i == first) continue;
        i = first;
        ready[i++] = (dl_gradients_ready){all_ns, bytes};
    }
    for (size_t r = 0; r < i; r++)
        ready[r].share /= all_ns;
    if (units && dl_architecture_frozen(architecture) > 0) {
        costs->gradients = ready;
        costs->gradient_count = i;
        costs->overlap = true;
        return;
    }
    dl_costs_fill_buckets(costs, ready, i);
    free(ready);
}

/* Standard deviation of the logarithm of the rate of fused attention over implementations, each
 * about twice as fast as its predecessor (same papers): ln(2) / 1.96. */
#define ATTENTION_LOG_SD 0.35

/* Log standard deviation of products with few columns, whose errors are 11 to 27 %, as most of the
 * fitted products are larger (GH200). */
#define NARROW_LOG_SD 0.2

/* Combines `log_sd` of the fit with those of fused attention in 16 bits and of narrow products,
 * weighted by their shares of a sample's time. */
static double spread_of(const dl_architecture *architecture, const dl_roofline *roofline,
                        const dl_efficiency *efficiency, double log_sd)
{
    double all = 0, attention = 0, narrow = 0;
    for (size_t l = 0; l < architecture->layer_count && in_half(roofline); l++) {
        const dl_architecture_layer *layer = &architecture->layers[l];
        for (int p = 0; p < layer->forward.count + layer->backward.count; p++) {
            const int b = p - layer->forward.count;
            const dl_layer_part *part =
                b < 0 ? &layer->forward.parts[p] : &layer->backward.parts[b];
            const double ns = part_ns(roofline, part);
            all += ns;
            attention += part->attention ? ns : 0;
            narrow += part->narrow && efficiency->sustained > 1 ? ns : 0;
        }
    }
    if (all == 0) return log_sd;
    return hypot(hypot(log_sd, attention / all * ATTENTION_LOG_SD), narrow / all * NARROW_LOG_SD);
}

/* Time per sample of a pass's own attention, its first part of attention, in ns. */
static double attention_ns(const dl_roofline *roofline, const dl_layer_pass *pass)
{
    int p = 0;
    while (pass->parts[p].attention == DL_ATTENTION_NOT)
        p++;
    return part_ns(roofline, &pass->parts[p]);
}

/* Sets the exchange of context parallelism. Ring: forward, keys and values make context - 1 hops;
 * backward, with their gradients, twice as many. Gathered keys and values take the same hops
 * without concurrent attention, in a collective forward and two backward, each for both. */
static void set_context(dl_costs *costs, const dl_architecture *architecture,
                        const dl_roofline *roofline, size_t l)
{
    const dl_architecture_layer *layer = &architecture->layers[l];
    const int steps = architecture->context;
    const dl_context_way way = architecture->context_way;
    const double calls = way == DL_CONTEXT_RING ? (steps - 1) * (3 + layer->rings_again)
                         : way == DL_CONTEXT_ALLGATHER
                             ? 2 * (3 + layer->rings_again)
                             : DL_CONTEXT_ALLTOALLS * (2 + layer->rings_again);
    dl_layer_cost *to = &costs->layers[l];
    costs->dispatch.kernels += LAUNCHES_OF_COLLECTIVE * calls;
    to->context_bytes_per_sample = assumed(layer->context_numbers * roofline->bytes_per_number);
    if (way == DL_CONTEXT_RING) {
        to->context_forward_ns_per_sample =
            assumed(attention_ns(roofline, &layer->forward) / steps);
        to->context_backward_ns_per_sample =
            assumed(attention_ns(roofline, &layer->backward) / steps);
    }
    if (way == DL_CONTEXT_ALLTOALL) to->context_alltoalls = assumed(DL_CONTEXT_ALLTOALLS);
    if (layer->rings_again > 0) to->context_forward_again = assumed(layer->rings_again);
}

/* Sets the all-to-alls among the GPUs that divide the experts. */
static void set_exchanges(dl_costs *costs, const dl_architecture *architecture,
                          const dl_roofline *roofline, size_t l)
{
    const dl_architecture_layer *layer = &architecture->layers[l];
    dl_layer_cost *to = &costs->layers[l];
    costs->dispatch.kernels +=
        LAUNCHES_OF_COLLECTIVE * (layer->expert_forward + layer->expert_backward);
    to->expert_parameter_bytes = assumed((double)layer->expert_parameters * PARAMETER_BYTES);
    to->expert_bytes_per_sample = assumed(layer->expert_numbers * roofline->bytes_per_number);
    to->expert_exchanges_forward = assumed(layer->expert_forward);
    to->expert_exchanges_backward = assumed(layer->expert_backward);
    if (layer->expert_copies > 0) {
        to->expert_copies = assumed(layer->expert_copies);
        to->expert_count = assumed(architecture->experts);
    }
}

/* Weights of products that torch.autocast converts: its copies are saved for the gradients of
 * inputs, and all are in its cache until the end of the forward pass. */
static double cast_weights(const dl_layer_pass *forward)
{
    double sum = 0;
    for (int p = 0; p < forward->count; p++) {
        const dl_layer_part *part = &forward->parts[p];
        if (is_product(part) && part->half_weights == DL_CAST_WEIGHTS * part->weights)
            sum += part->weights;
    }
    return sum;
}

static void set_layer(dl_costs *costs, const dl_architecture *architecture,
                      const dl_roofline *roofline, size_t l)
{
    const dl_architecture_layer *layer = &architecture->layers[l];
    set_op(&costs->ops[l], layer->name, "forward", roofline, &layer->forward);
    set_op(&costs->ops[architecture->layer_count + l], layer->name, "backward", roofline,
           &layer->backward);
    costs->layers[l] = (dl_layer_cost){
        .name = dl_strdup(layer->name),
        .output_bytes_per_sample = assumed(layer->output_numbers * roofline->bytes_per_number),
        .parameter_bytes = assumed((double)dl_layer_parameters(layer) * PARAMETER_BYTES),
        .activation_bytes_per_sample = assumed(kept_of(roofline, layer)),
    };
    const double working = working_of(roofline, layer);
    if (working > 0) costs->layers[l].working_bytes_per_sample = assumed(working);
    const bool casts = in_half(roofline) && !costs->half_weights;
    const double cast = casts ? 2 * cast_weights(&layer->forward) : 0;
    if (cast > 0) costs->layers[l].cast_bytes = assumed(cast);
    if (cast > 0 && layer->recasts) costs->layers[l].recast_bytes = assumed(cast);
    if (layer->context_numbers > 0) set_context(costs, architecture, roofline, l);
    if (layer->expert_numbers > 0) set_exchanges(costs, architecture, roofline, l);
    if (!(layer->tensor_numbers > 0)) return;
    costs->dispatch.kernels +=
        LAUNCHES_OF_COLLECTIVE * architecture->tensor_calls *
        (layer->tensor_forward + layer->tensor_backward + layer->tensor_beside);
    costs->layers[l].tensor_bytes_per_sample =
        assumed(layer->tensor_numbers * roofline->bytes_per_number);
    costs->layers[l].tensor_collectives_forward = assumed(layer->tensor_forward);
    costs->layers[l].tensor_collectives_backward = assumed(layer->tensor_backward);
    if (!(layer->tensor_beside > 0)) return;
    const double rate = in_low(roofline) ? roofline->low_flop_per_s : roofline->flop_per_s;
    costs->layers[l].tensor_collectives_beside = assumed(layer->tensor_beside);
    costs->layers[l].tensor_beside_ns_per_sample = assumed(DL_NS_PER_S * layer->beside_flop / rate);
}

/* Standard deviation of the logarithm of the sustained factor, whose bounds are an interval of
 * 95 %. */
static double sustained_sd(const dl_gpu_kernels *kernels)
{
    const dl_quantity *factor = &kernels->sustained;
    return factor->known && factor->high > factor->low ? log(factor->high / factor->low) / 4 : 0;
}

dl_status dl_roofline_costs(dl_costs *costs, const dl_architecture *architecture,
                            const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                            dl_optimizer_kind optimizer, bool units, dl_error *err)
{
    const dl_efficiency *efficiency = dl_efficiency_of(gpu, architecture->class, arithmetic);
    const size_t layers = architecture->layer_count;
    const int64_t parameters = dl_architecture_parameters(architecture);
    const bool is_fused = architecture->class == DL_MODEL_TRANSFORMER && !architecture->unfused;
    dl_roofline roofline = {0};
    dl_status status = dl_roofline_check(architecture, gpu, arithmetic, err);
    if (status == DL_OK) status = dl_roofline_of(gpu, arithmetic, efficiency, &roofline, err);
    if (status != DL_OK) return status;
    const dl_gpu_kernels *kernels = dl_roofline_kernels(gpu, architecture->class, arithmetic);
    if (kernels != NULL) dl_roofline_take(&roofline, kernels);
    const double log_sd = kernels != NULL
                              ? hypot(efficiency->log_sd, sustained_sd(kernels))
                              : dl_efficiency_log_sd(gpu, architecture->class, arithmetic);
    *costs = (dl_costs){
        .path = dl_format("(%s)", architecture->name),
        .workload = dl_format("%s, %s, %s", architecture->name, dl_arithmetic_names[arithmetic],
                              optimizer_names[optimizer]),
        .device = dl_strdup(gpu->name),
        .parameter_bytes = parameters * PARAMETER_BYTES,
        .state_bytes = (int64_t)((double)(parameters * PARAMETER_BYTES) * state_numbers[optimizer]),
        .frozen_bytes = frozen_bytes(architecture, &roofline),
        .ops = dl_calloc(2 * layers + 2, sizeof *costs->ops, "operations"),
        .op_count = 2 * layers + 2,
        .layers = dl_calloc(layers, sizeof *costs->layers, "layers"),
        .layer_count = layers,
        .tensor_ranks = architecture->tensor,
        .context_ranks = architecture->context,
        .expert_ranks = architecture->expert_ranks,
        .dispatch.kernels =
            (double)dl_architecture_kernels(architecture, in_half(&roofline), in_low(&roofline)),
        .dispatch.singles = (double)dl_architecture_singles(architecture),
        .dispatch.few =
            is_fused && !architecture->compiled && dl_architecture_frozen(architecture) == 0,
        .dispatch.least_ns =
            kernels != NULL && kernels->launch_ns.known ? kernels->launch_ns.value : 0,
        .dispatch.graphs = architecture->graphs,
        .half_weights = in_half(&roofline) && is_fused && !units,
        .gpu_memory = {assumed(most_bytes(&roofline, architecture)), assumed(WORKSPACE_BYTES)},
        .input_bytes_per_sample = assumed(input_bytes(architecture)),
        .compute_spread_frac = assumed(spread_of(architecture, &roofline, efficiency, log_sd)),
    };
    const double own = costs->dispatch.kernels;
    for (size_t l = 0; l < layers; l++)
        set_layer(costs, architecture, &roofline, l);
    const int plain = architecture->plain_kernels[in_half(&roofline)];
    if (plain > 0) costs->dispatch.plain = plain + costs->dispatch.kernels - own;
    costs->ops[2 * layers] = (dl_op_cost){
        .name = dl_strdup("network.update"),
        .fixed_ns = assumed(dl_roofline_update_ns(&roofline, (double)parameters, optimizer)),
        .per_sample_ns = assumed(0),
    };
    costs->ops[2 * layers + 1] = (dl_op_cost){
        .name = dl_strdup("network.bucket"),
        .fixed_ns = assumed(
            bucket_ns(&roofline, (double)parameters, dl_architecture_tensors(architecture))),
        .per_sample_ns = assumed(0),
    };
    set_gradients(costs, architecture, &roofline, units);
    return DL_OK;
}
