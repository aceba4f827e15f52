/* A product's loops for one kind of processor. product_cpu.c includes this file once for each, and
 * defines
 *   NAME      of the function
 *   TARGET    its attribute: the features that the processor must have
 *   VECTOR    type of a register
 *   VECTORS   registers in a row of a tile
 *   ROWS      rows of a tile, at most 6
 *   DOTS      rows of b multiplied with ROWS rows of a if both are stored by rows
 * so that the sums (ROWS x VECTORS, or ROWS x DOTS), the vectors of b and one of a fit into the
 * registers. */
#define PASTE(a, b) a##b
#define EXPAND(a, b) PASTE(a, b)
#define TILE EXPAND(NAME, _tile)
#define ALL_ROWS EXPAND(NAME, _rows)
#define LANES (sizeof(VECTOR) / sizeof(dl_real))
#define DOT_TILE EXPAND(NAME, _dot_tile)
#define DOT_ROWS EXPAND(NAME, _dot_rows)
#define DOT_ALL EXPAND(NAME, _dots)
#define UNROLL _Pragma("GCC unroll 8")

/* Inlined with a constant number of rows, so that only the loop over the depth remains. */
TARGET static inline __attribute__((always_inline)) void
TILE(const dl_product *p, int rows, const dl_real *a, const dl_real *b, dl_real *c)
{
    const size_t a_row = p->a_row, a_depth = p->a_depth, b_depth = p->b_depth, c_row = p->c_row;
    VECTOR sum[ROWS][VECTORS];
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (size_t j = 0; j < VECTORS; j++) sum[i][j] = (VECTOR){0};
    }
    for (int l = p->k; l > 0; l--, a += a_depth, b += b_depth) {
        VECTOR right[VECTORS];
        UNROLL for (size_t j = 0; j < VECTORS; j++) right[j] = *(const VECTOR *)(b + j * LANES);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const dl_real left = a[(size_t)i * a_row];
            UNROLL for (size_t j = 0; j < VECTORS; j++) sum[i][j] += left * right[j];
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (size_t j = 0; j < VECTORS; j++)
        {
            VECTOR *at = (VECTOR *)(c + (size_t)i * c_row + j * LANES);
            *at = p->accumulate ? *at + sum[i][j] : sum[i][j];
        }
    }
}

/* Computes all rows of the columns of one tile. */
TARGET static void ALL_ROWS(const dl_product *p, const dl_real *b, dl_real *c)
{
    const dl_real *a = p->a;
    int left = p->m;
    for (; left >= ROWS; left -= ROWS, a += ROWS * p->a_row, c += ROWS * p->c_row)
        TILE(p, ROWS, a, b, c);
    switch (left) {
    case 5: TILE(p, 5 < ROWS ? 5 : ROWS, a, b, c); break;
    case 4: TILE(p, 4 < ROWS ? 4 : ROWS, a, b, c); break;
    case 3: TILE(p, 3, a, b, c); break;
    case 2: TILE(p, 2, a, b, c); break;
    case 1: TILE(p, 1, a, b, c); break;
    default: break;
    }
}

TARGET static void NAME(const dl_product *p)
{
    for (int j = 0; j < p->n; j += (int)(VECTORS * LANES)) {
        const dl_real *b = p->b + (size_t)(j / DL_PANEL) * p->b_panel + j % DL_PANEL;
        ALL_ROWS(p, b, p->c + j);
    }
}

/* Computes `rows` x DOTS numbers of c, each summed in LANES parts. */
TARGET static inline __attribute__((always_inline)) void
DOT_TILE(const dl_dots *p, int rows, const dl_real *a, const dl_real *b, dl_real *c)
{
    const size_t a_row = p->a_row, b_row = p->b_row;
    VECTOR sum[ROWS][DOTS];
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (size_t j = 0; j < DOTS; j++) sum[i][j] = (VECTOR){0};
    }
    for (int l = p->k; l > 0; l -= (int)LANES, a += LANES, b += LANES) {
        VECTOR right[DOTS];
        UNROLL for (size_t j = 0; j < DOTS; j++) right[j] = *(const VECTOR *)(b + j * b_row);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const VECTOR left = *(const VECTOR *)(a + (size_t)i * a_row);
            UNROLL for (size_t j = 0; j < DOTS; j++) sum[i][j] += left * right[j];
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (size_t j = 0; j < DOTS; j++)
        {
            dl_real *at = c + (size_t)i * p->c_row + j, total = p->accumulate ? *at : 0;
            for (size_t lane = 0; lane < LANES; lane++)
                total += sum[i][j][lane];
            *at = total;
        }
    }
}

/* Multiplies all rows of a with DOTS rows of b. */
TARGET static void DOT_ROWS(const dl_dots *p, const dl_real *b, dl_real *c)
{
    const dl_real *a = p->a;
    int left = p->m;
    for (; left >= ROWS; left -= ROWS, a += ROWS * p->a_row, c += ROWS * p->c_row)
        DOT_TILE(p, ROWS, a, b, c);
    switch (left) {
    case 5: DOT_TILE(p, 5 < ROWS ? 5 : ROWS, a, b, c); break;
    case 4: DOT_TILE(p, 4 < ROWS ? 4 : ROWS, a, b, c); break;
    case 3: DOT_TILE(p, 3, a, b, c); break;
    case 2: DOT_TILE(p, 2, a, b, c); break;
    case 1: DOT_TILE(p, 1, a, b, c); break;
    default: break;
    }
}

TARGET static void DOT_ALL(const dl_dots *p)
{
    for (int j = 0; j < p->n; j += DOTS)
        DOT_ROWS(p, p->b + (size_t)j * p->b_row, p->c + j);
}

#undef DOT_TILE
#undef DOT_ROWS
#undef DOT_ALL
#undef DOTS
#undef PASTE
#undef EXPAND
#undef TILE
#undef ALL_ROWS
#undef LANES
#undef UNROLL
#undef NAME
#undef TARGET
#undef VECTOR
#undef VECTORS
#undef ROWS
