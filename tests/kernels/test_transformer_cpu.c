/* Layer normalisation, GELU and attention on the processor: in double against their definitions and
 * their gradients against differences, and in float against double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "kernels/backend.h"
#include "tests/check.h"
#include "tests/near.h"

enum { HEADS = 2, TOKENS = 70, SIZE = 6 }; /* more tokens than a block of queries */
enum { NUMBERS = HEADS * TOKENS * SIZE };
enum { ROWS = 5, COLUMNS = 150 };

static const dl_transformer_operations *operations(dl_precision precision)
{
    dl_error err = {0};
    const dl_backend *backend = dl_backend_cpu(precision);
    if (backend->start(&err)) fail_msg("%s", err.text);
    return backend->transformer;
}

static void draw(double *values, size_t count, uint64_t seed)
{
    dl_random random;
    dl_random_init(&random, seed, 0, 0, 0);
    for (size_t i = 0; i < count; i++)
        values[i] = dl_random_normal(&random);
}

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Functions of one array, whose gradient is tested; the others are fixed. */
typedef struct inputs {
    double *arrays[3], *y, *extra[2]; /* q, k, v, or x, scale, shift */
    size_t counts[3], results;
    void (*run)(struct inputs *in);
} inputs;

/* Compares gradients[3] of dot(dy, y) with differences at some numbers of each array. */
static void check_gradients(inputs *in, const double *dy, double *const *gradients)
{
    const double h = 1e-5;
    for (int a = 0; a < 3; a++) {
        for (size_t i = 0; i < in->counts[a]; i += 1 + in->counts[a] / 17) {
            double *x = &in->arrays[a][i];
            const double at = *x;
            *x = at + h;
            in->run(in);
            const double above = dot(dy, in->y, in->results);
            *x = at - h;
            in->run(in);
            const double below = dot(dy, in->y, in->results);
            *x = at;
            assert_true(near_scaled(gradients[a][i], (above - below) / (2 * h), 1, 1e-7));
        }
    }
    in->run(in);
}

/* --- attention ------------------------------------------------------------------------------- */

static dl_heads heads_of(inputs *in)
{
    return (dl_heads){.heads = HEADS,
                      .tokens = TOKENS,
                      .size = SIZE,
                      .q = in->arrays[0],
                      .k = in->arrays[1],
                      .v = in->arrays[2],
                      .y = in->y,
                      .log_sums = in->extra[0]};
}

static void run_attention(inputs *in)
{
    const dl_heads of = heads_of(in);
    operations(DL_DOUBLE)->attend(&of);
}

static void check_definition(const inputs *in)
{
    for (int row = 0; row < HEADS * TOKENS; row++) {
        const int head = row / TOKENS, seen = row % TOKENS + 1;
        const double *q = in->arrays[0] + row * SIZE, *k = in->arrays[1] + head * TOKENS * SIZE,
                     *v = in->arrays[2] + head * TOKENS * SIZE;
        double y[SIZE] = {0}, sum = 0;
        for (int j = 0; j < seen; j++) {
            const double weight = exp(dot(q, k + j * SIZE, SIZE) / sqrt(SIZE));
            sum += weight;
            for (int d = 0; d < SIZE; d++)
                y[d] += weight * v[j * SIZE + d];
        }
        for (int d = 0; d < SIZE; d++)
            assert_true(near_scaled(in->y[row * SIZE + d], y[d] / sum, 1, 1e-12));
        assert_true(near_scaled(in->extra[0][row], log(sum), 1, 1e-12));
    }
}

static void attention_is_its_definition(void **state DL_UNUSED)
{
    static double q[NUMBERS], k[NUMBERS], v[NUMBERS], y[NUMBERS], sums[HEADS * TOKENS], dy[NUMBERS],
        dq[NUMBERS], dk[NUMBERS], dv[NUMBERS];
    inputs in = {.arrays = {q, k, v},
                 .y = y,
                 .extra = {sums},
                 .counts = {NUMBERS, NUMBERS, NUMBERS},
                 .results = NUMBERS,
                 .run = run_attention};
    for (int a = 0; a < 3; a++)
        draw(in.arrays[a], NUMBERS, (uint64_t)a);
    draw(dy, NUMBERS, 3);
    run_attention(&in);
    check_definition(&in);
    const dl_heads of = heads_of(&in);
    operations(DL_DOUBLE)->attend_backward(&of, dy, dq, dk, dv);
    check_gradients(&in, dy, (double *const[]){dq, dk, dv});
}

/* --- layer normalisation --------------------------------------------------------------------- */

static dl_row_norm norm_of(const inputs *in)
{
    return (dl_row_norm){.rows = ROWS,
                         .columns = COLUMNS,
                         .x = in->arrays[0],
                         .scale = in->arrays[1],
                         .shift = in->arrays[2],
                         .mean = in->extra[0],
                         .inverse_deviation = in->extra[1],
                         .epsilon = 1e-5};
}

static void run_norm(inputs *in)
{
    const dl_row_norm norm = norm_of(in);
    operations(DL_DOUBLE)->row_norm(&norm, in->y);
}

static void rows_are_normalised(void **state DL_UNUSED)
{
    static double x[ROWS * COLUMNS], scale[COLUMNS], shift[COLUMNS], y[ROWS * COLUMNS], mean[ROWS],
        inverse[ROWS], dy[ROWS * COLUMNS], dx[ROWS * COLUMNS], dscale[COLUMNS], dshift[COLUMNS];
    inputs in = {.arrays = {x, scale, shift},
                 .y = y,
                 .extra = {mean, inverse},
                 .counts = {ROWS * COLUMNS, COLUMNS, COLUMNS},
                 .results = ROWS * COLUMNS,
                 .run = run_norm};
    for (int a = 0; a < 3; a++)
        draw(in.arrays[a], in.counts[a], (uint64_t)a);
    draw(dy, ROWS * COLUMNS, 3);
    for (int c = 0; c < COLUMNS; c++)
        x[c] += 10;
    run_norm(&in);
    for (int i = 0; i < ROWS; i++) {
        double sum = 0, squares = 0;
        for (int c = 0; c < COLUMNS; c++)
            sum += x[i * COLUMNS + c] / COLUMNS;
        for (int c = 0; c < COLUMNS; c++)
            squares += (x[i * COLUMNS + c] - sum) * (x[i * COLUMNS + c] - sum) / COLUMNS;
        for (int c = 0; c < COLUMNS; c++) {
            const double z = (x[i * COLUMNS + c] - sum) / sqrt(squares + 1e-5);
            assert_true(near_scaled(y[i * COLUMNS + c], scale[c] * z + shift[c], 1, 1e-9));
        }
    }
    const dl_row_norm norm = norm_of(&in);
    operations(DL_DOUBLE)->row_norm_backward(&norm, dy, dscale, dshift, dx);
    check_gradients(&in, dy, (double *const[]){dx, dscale, dshift});
}

/* --- GELU ------------------------------------------------------------------------------------ */

static double gelu_of(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static void gelu_is_its_definition(void **state DL_UNUSED)
{
    enum { COUNT = 400 };
    double x[COUNT], y[COUNT], dy[COUNT], dx[COUNT];
    const double h = 1e-6;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (i - COUNT / 2) / 10.0; /* -20 to 20 */
        dy[i] = 1 + i % 3;
    }
    operations(DL_DOUBLE)->gelu(y, x, COUNT);
    operations(DL_DOUBLE)->gelu_backward(dx, dy, x, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_true(near_scaled(y[i], gelu_of(x[i]), 1, 1e-12));
        const double slope = (gelu_of(x[i] + h) - gelu_of(x[i] - h)) / (2 * h);
        assert_true(near_scaled(dx[i], dy[i] * slope, 1, 1e-8));
    }
}

/* --- float ----------------------------------------------------------------------------------- */

static void to_floats(float *to, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)from[i];
}

/* Scores up to some dozens, so that probabilities reach the end of a float's range. */
static void floats_agree_with_doubles(void **state DL_UNUSED)
{
    static double in[4][NUMBERS], y[NUMBERS], sums[HEADS * TOKENS], out[3][NUMBERS];
    static float fin[4][NUMBERS], fy[NUMBERS], fsums[HEADS * TOKENS], fout[3][NUMBERS];
    for (int a = 0; a < 4; a++) {
        draw(in[a], NUMBERS, 10 + (uint64_t)a);
        for (int i = 0; a < 2 && i < NUMBERS; i++)
            in[a][i] *= 4;
        to_floats(fin[a], in[a], NUMBERS);
        for (int i = 0; i < NUMBERS; i++)
            in[a][i] = (double)fin[a][i];
    }
    const dl_heads of = {HEADS, TOKENS, SIZE, in[0], in[1], in[2], y, sums};
    const dl_heads fof = {HEADS, TOKENS, SIZE, fin[0], fin[1], fin[2], fy, fsums};
    operations(DL_DOUBLE)->attend(&of);
    operations(DL_FLOAT)->attend(&fof);
    operations(DL_DOUBLE)->attend_backward(&of, in[3], out[0], out[1], out[2]);
    operations(DL_FLOAT)->attend_backward(&fof, fin[3], fout[0], fout[1], fout[2]);
    for (int i = 0; i < NUMBERS; i++) {
        assert_true(near_scaled((double)fy[i], y[i], 1, 1e-4));
        for (int a = 0; a < 3; a++)
            assert_true(near_scaled((double)fout[a][i], out[a][i], 10, 1e-4));
    }
    operations(DL_DOUBLE)->gelu(y, in[0], NUMBERS);
    operations(DL_FLOAT)->gelu(fy, fin[0], NUMBERS);
    operations(DL_DOUBLE)->gelu_backward(out[0], in[3], in[0], NUMBERS);
    operations(DL_FLOAT)->gelu_backward(fout[0], fin[3], fin[0], NUMBERS);
    for (int i = 0; i < NUMBERS; i++) {
        assert_true(near_scaled((double)fy[i], y[i], 1, 1e-6));
        assert_true(near_scaled((double)fout[0][i], out[0][i], 1, 1e-5));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_its_definition),
        cmocka_unit_test(rows_are_normalised),
        cmocka_unit_test(gelu_is_its_definition),
        cmocka_unit_test(floats_agree_with_doubles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
