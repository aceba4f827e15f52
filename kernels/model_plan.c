#include "kernels/model_plan.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"

void dl_model_plan_links(dl_model_plan *plan, const dl_layer_spec *specs, int layer_count)
{
    *plan = (dl_model_plan){.links = dl_calloc((size_t)layer_count, sizeof *plan->links, "links")};
    for (int i = 0; i < layer_count; i++) {
        dl_model_link *link = &plan->links[i];
        link->input = i - (specs[i].back > 0 ? specs[i].back : 1);
        link->other = specs[i].skip > 0 ? i - specs[i].skip : -1;
        link->gradient_slot = -1;
        DL_ASSERT(link->input >= -1 && i - specs[i].skip >= 0, "%s: inputs %d and %d",
                  specs[i].name, link->input, i - specs[i].skip);
    }
}

/* A slot while a backward pass is gone through. */
typedef struct slot {
    size_t size;
    int users; /* layers, in-place ones aside, that have yet to read it; 0 = free */
} slot;

/* A free slot for `size` numbers: the smallest that is large enough, else the largest, grown, else
 * a new one. slots[] has room for one a layer. */
static int take_slot(slot *slots, int *count, size_t size)
{
    int best = -1;
    for (int s = 0; s < *count; s++) {
        if (slots[s].users > 0) continue;
        const bool fits = slots[s].size >= size;
        if (best < 0 || (fits && (slots[best].size < size || slots[s].size < slots[best].size)) ||
            (!fits && slots[best].size < size && slots[s].size > slots[best].size)) {
            best = s;
        }
    }
    if (best < 0) best = (*count)++;
    if (slots[best].size < size) slots[best].size = size;
    slots[best].users = 1;
    return best;
}

/* The gradient of an in-place layer's input is that of its output, changed where it lies; an
 * addition's, unchanged, is also that of its other input. */
static void pass_on(dl_model_link *links, slot *slots, const dl_layer *layers, int i)
{
    const int own = links[i].gradient_slot;
    DL_ASSERT(links[i].input >= 0 && links[links[i].input].gradient_slot < 0 &&
                  slots[own].users == 1,
              "%s: in place on an array that others read", layers[i].spec->name);
    links[links[i].input].gradient_slot = own;
    if (links[i].other < 0) return;
    DL_ASSERT(links[links[i].other].gradient_slot < 0, "%s: what it adds is read behind it",
              layers[i].spec->name);
    links[links[i].other].gradient_slot = own;
    slots[own].users++;
}

/* Where a layer that is not in place puts its input's gradient. */
static void hand_down(dl_model_link *links, slot *slots, int *count, dl_layer *layers, int i)
{
    dl_model_link *input = &links[links[i].input];
    if (input->gradient_slot < 0) {
        input->gradient_slot = take_slot(slots, count, dl_shape_count(layers[i].in));
        return;
    }
    DL_ASSERT(layers[i].type->can_accumulate && slots[input->gradient_slot].users == 1,
              "%s: cannot add to its input's gradient", layers[i].spec->name);
    layers[i].accumulates = true;
}

void dl_model_plan_gradients(dl_model_plan *plan, dl_layer *layers, int layer_count)
{
    dl_model_link *links = plan->links;
    slot *slots = dl_calloc((size_t)layer_count, sizeof *slots, "slots");
    int count = 0;
    for (int i = layer_count - 1; i >= 0; i--) {
        const int own = links[i].gradient_slot;
        DL_ASSERT(own >= 0 || i == layer_count - 1, "%s: nobody reads it", layers[i].spec->name);
        if (layers[i].type->in_place) {
            pass_on(links, slots, layers, i);
            continue;
        }
        if (links[i].input >= 0) hand_down(links, slots, &count, layers, i);
        if (own >= 0) slots[own].users--;
    }
    plan->slot_count = count;
    plan->slot_size = dl_calloc((size_t)count, sizeof *plan->slot_size, "slot sizes");
    for (int s = 0; s < count; s++)
        plan->slot_size[s] = slots[s].size;
    free(slots);
}

void dl_model_plan_free(dl_model_plan *plan)
{
    free(plan->slot_size);
    free(plan->links);
    *plan = (dl_model_plan){0};
}
