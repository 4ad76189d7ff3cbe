/* Semismooth Newton steps for one client's sub-problem in the contrast: the loop of `problem.minimize._newton`.

   Only records whose gradients are not clipped bend the objective, so only their rows make up the matrix. */

#define TILE 8
typedef double Wide __attribute__((vector_size(64), aligned(8)));

typedef struct {
    long records, columns;
    const double *features, *labels, *lengths, *pull;
    double share, curvature, clip_norm, goal, pulled;
} Problem;

typedef struct {
    double *contrast, *scores, *bends, *gradient;
    double slope, rounding;
} Point;

/* Clipped slopes of a BLOCK of records, in place of their scores; nothing where there is no record. By how much each is
   clipped if that is more than 1, and e^{-|score|}. */
INLINE void slopes_of(const Problem *p, long first, long count, double *slopes, double *over, double *tails)
{
    const double *labels = p->labels + first, *lengths = p->lengths + first;
    probabilities_float64(slopes, tails);
#pragma omp simd
    for (long i = 0; i < count; i++) {
        double slope = slopes[i] - labels[i], times = lengths[i] * fabs(slope) / p->clip_norm;
        over[i] = times;
        slopes[i] = slope / (times > 1 ? times : 1);
    }
    for (long i = count; i < BLOCK; i++) slopes[i] = 0;
}

INLINE long block_at(const Problem *p, long first)
{
    return p->records - first < BLOCK ? p->records - first : BLOCK;
}

INLINE void look(const Problem *p, Point *here)
{
    double norm = sqrt(dot_float64(here->contrast, here->contrast, p->columns)), terms = 0;
    Rows_float64 rows = {p->features, 0, 0};
    for (long j = 0; j < p->columns; j++) here->gradient[j] = p->curvature * here->contrast[j] - p->pull[j];
    for (long r = 0; r < p->records; r += BLOCK) {
        long count = block_at(p, r);
        const double *lengths = p->lengths + r;
        double slopes[BLOCK] = {0}, over[BLOCK], tails[BLOCK], *bends = here->bends + r;
        products_float64(r, count, p->columns, rows, here->contrast, slopes, 0);
        for (long i = 0; i < count; i++) here->scores[r + i] = slopes[i];
        slopes_of(p, r, count, slopes, over, tails);
#pragma omp simd reduction(+ : terms)
        for (long i = 0; i < count; i++) {
            double bend = p->share * tails[i] / ((1 + tails[i]) * (1 + tails[i]));
            bends[i] = bend = over[i] <= 1 ? bend : 0;
            slopes[i] *= p->share;
            terms += lengths[i] * (fabs(slopes[i]) + bend * lengths[i] * norm);
        }
        add_rows_float64(r, count, p->columns, rows, slopes, here->gradient);
    }
    here->slope = sqrt(dot_float64(here->gradient, here->gradient, p->columns));
    here->rounding = 2.220446049250313e-16 * (terms + p->curvature * norm + p->pulled);
}

/* Adds, or takes away, products of all columns from the i-th on with TILE of them, in tiles that stay in registers. */
INLINE void add_tiles(long rows, long wide, long i, double sign, const double *from, double *matrix)
{
    for (long j = i; j < wide; j += 3 * TILE) {
        Wide left[TILE] = {0}, middle[TILE] = {0}, right[TILE] = {0};
        long parts = (wide - j) / TILE;
        if (parts >= 3)
            for (long r = 0; r < rows; r++) {
                const double *row = from + r * wide;
                for (long t = 0; t < TILE; t++) {
                    left[t] += row[i + t] * *(const Wide *)(row + j);
                    middle[t] += row[i + t] * *(const Wide *)(row + j + TILE);
                    right[t] += row[i + t] * *(const Wide *)(row + j + 2 * TILE);
                }
            }
        else if (parts == 2)
            for (long r = 0; r < rows; r++) {
                const double *row = from + r * wide;
                for (long t = 0; t < TILE; t++) {
                    left[t] += row[i + t] * *(const Wide *)(row + j);
                    middle[t] += row[i + t] * *(const Wide *)(row + j + TILE);
                }
            }
        else
            for (long r = 0; r < rows; r++) {
                const double *row = from + r * wide;
                for (long t = 0; t < TILE; t++) left[t] += row[i + t] * *(const Wide *)(row + j);
            }
        for (long t = 0; t < TILE; t++) {
            double *to = matrix + (i + t) * wide + j;
            *(Wide *)to += sign * left[t];
            if (parts > 1) *(Wide *)(to + TILE) += sign * middle[t];
            if (parts > 2) *(Wide *)(to + 2 * TILE) += sign * right[t];
        }
    }
}

/* Cholesky's factor of the second derivative, its upper triangle; 0 where rounding left none. */
INLINE int factor_of(const Problem *p, const Point *here, long wide, double *scaled, double *matrix)
{
    long n = p->columns, rows = 0;
    double size = 0;
    for (long r = 0; r < p->records; r++) {
        if (!(here->bends[r] > 0)) continue;
        double root = sqrt(here->bends[r]), *to = scaled + rows++ * wide;
        const double *row = p->features + r * n;
        for (long j = 0; j < n; j++) to[j] = root * row[j];
        for (long j = n; j < wide; j++) to[j] = 0;
        size += here->bends[r] * p->lengths[r] * p->lengths[r];
    }
    for (long i = 0; i < wide * wide; i++) matrix[i] = 0;
    for (long i = 0; i < n; i++) matrix[i * wide + i] = p->curvature + 2.220446049250313e-16 * size;
    for (long i = 0; i < n; i += TILE) { /* matrix = U^T U, so many rows of U at a time */
        add_tiles(rows, wide, i, 1, scaled, matrix);
        add_tiles(i, wide, i, -1, matrix, matrix);
        for (long k = i; k < i + TILE && k < n; k++) {
            double pivot = matrix[k * wide + k], *own = matrix + k * wide;
            if (!(pivot > 0)) return 0;
            double scale = 1 / sqrt(pivot);
            for (long j = k; j < wide; j++) own[j] *= scale;
            for (long l = k + 1; l < i + TILE && l < n; l++) add_float64(matrix + l * wide + l, -own[l], own + l, wide - l);
        }
    }
    return 1;
}

/* Minus the gradient over the matrix of this factor. */
INLINE void direction_of(const Problem *p, const Point *here, long wide, const double *matrix, double *direction)
{
    long n = p->columns;
    for (long i = 0; i < n; i++) direction[i] = -here->gradient[i];
    for (long i = 0; i < n; i++) {
        direction[i] /= matrix[i * wide + i];
        add_float64(direction + i + 1, -direction[i], matrix + i * wide + i + 1, n - i - 1);
    }
    for (long i = n - 1; i >= 0; i--)
        direction[i] = (direction[i] - dot_float64(matrix + i * wide + i + 1, direction + i + 1, n - i - 1)) / matrix[i * wide + i];
}

/* How far to go along a step: `problem.minimize._length`, with the same tests. */
INLINE double length_of(const Problem *p, const Point *here, const double *direction, double *moves, double smoothness,
                        long most_tries, double flat)
{
    double squares, constant = 0, tiny = 2.2250738585072014e-308;
    Rows_float64 rows = {p->features, 0, 0};
    products_float64(0, p->records, p->columns, rows, direction, moves, 0);
    squares = p->share * dot_float64(moves, moves, p->records);
    for (long j = 0; j < p->columns; j++) constant += (p->curvature * here->contrast[j] - p->pull[j]) * direction[j];
    double square = dot_float64(direction, direction, p->columns), least = p->curvature * square;
    double descent = -dot_float64(here->gradient, direction, p->columns), most = least + smoothness * squares;
    double noise = here->rounding * sqrt(square);
    double low = descent / (most > tiny ? most : tiny), high = descent / (least > tiny ? least : tiny);
    double low_slope = -descent, high_slope = descent, length = 1;
    for (long tried = 0;;) {
        double sum = 0, slope;
        for (long r = 0; r < p->records; r += BLOCK) {
            long count = block_at(p, r);
            double slopes[BLOCK] = {0}, over[BLOCK], tails[BLOCK];
            for (long i = 0; i < count; i++) slopes[i] = here->scores[r + i] + length * moves[r + i];
            slopes_of(p, r, count, slopes, over, tails);
            sum += dot_float64(slopes, moves + r, count);
        }
        slope = p->share * sum + constant + length * least;
        int before = slope <= 0;
        double total = descent + slope;
        if (before ? -slope <= flat * descent : 4 * most * slope * length <= total * total) return length;
        if (fabs(slope) <= noise) return length;
        if (before) low = length, low_slope = slope;
        else high = length, high_slope = slope;
        if (++tried >= most_tries) return low;
        double rise = high_slope - low_slope;
        length = tried % 2 == 1 ? low - (high - low) * low_slope / (rise > tiny ? rise : tiny) : sqrt(low * high);
    }
}

/* Contrasts of stacked clients, from where they stand to where their gradient vanishes; `done` where one has arrived. */
CLONES void newton(long clients, long records, long columns, const double *features, long apart, const double *labels,
                   const double *lengths, const double *shares, const double *curvatures, const double *pulls,
                   const double *goals, double clip_norm, double smoothness, double exhausted, double flat,
                   long most_steps, long most_tries, double *contrasts, unsigned char *done, double *scratch)
{
    long wide = (columns + TILE - 1) / TILE * TILE;
    double *scaled = scratch, *matrix = scaled + records * wide, *direction = matrix + wide * wide;
    double *gradient = direction + wide, *scores = gradient + wide, *bends = scores + records, *moves = bends + records;
    for (long k = 0; k < clients; k++) {
        Problem p = {records, columns, features + k * apart, labels + k * records, lengths + k * records,
                     pulls + k * columns, shares[k], curvatures[k], clip_norm, goals[k], 0};
        Point here = {contrasts + k * columns, scores, bends, gradient, 0, 0};
        p.pulled = sqrt(dot_float64(p.pull, p.pull, columns));
        look(&p, &here);
        done[k] = here.slope <= p.goal;
        for (long step = 0; step < most_steps && !done[k]; step++) {
            double before = here.slope;
            if (!factor_of(&p, &here, wide, scaled, matrix)) break;
            direction_of(&p, &here, wide, matrix, direction);
            double length = length_of(&p, &here, direction, moves, smoothness, most_tries, flat);
            add_float64(here.contrast, length, direction, columns);
            look(&p, &here);
            done[k] = here.slope <= p.goal || (here.slope <= exhausted * here.rounding && here.slope > 0.5 * before);
        }
    }
}
