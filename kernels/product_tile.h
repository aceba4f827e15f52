/* A product's loops for one kind of processor, included once for each by product_cpu.c, which
 * defines
 *   NAME      of the function
 *   TARGET    its attribute, what the processor must have
 *   VECTOR    type of a register
 *   VECTORS   registers beside each other in a tile
 *   ROWS      rows of a tile, at most 6
 * so that the sums (ROWS x VECTORS), the vectors of b and one number of a fit into the registers. */
#define PASTE(a, b) a##b
#define EXPAND(a, b) PASTE(a, b)
#define TILE EXPAND(NAME, _tile)
#define ALL_ROWS EXPAND(NAME, _rows)
#define LANES (sizeof(VECTOR) / sizeof(dl_real))
#define UNROLL _Pragma("GCC unroll 8")

/* Inlined with a constant number of rows: all loops but that over the depth vanish. */
TARGET static inline __attribute__((always_inline)) void
TILE(const dl_product *p, int rows, const dl_real *a, const dl_real *b, dl_real *c)
{
    const size_t a_row = p->a_row, a_depth = p->a_depth, b_depth = p->b_depth, c_row = p->c_row;
    VECTOR sum[ROWS][VECTORS];
    UNROLL for (int i = 0; i < rows; i++)
    {
        UNROLL for (size_t j = 0; j < VECTORS; j++)
        {
            const dl_real *at = c + (size_t)i * c_row + j * LANES;
            sum[i][j] = p->accumulate ? *(const VECTOR *)at : (VECTOR){0};
        }
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
            *(VECTOR *)(c + (size_t)i * c_row + j * LANES) = sum[i][j];
        }
    }
}

/* All rows of the columns of one tile. */
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
